"""What the command line runs: one file a command, and the folder that a command leaves behind."""
