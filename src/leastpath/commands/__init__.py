"""What the command line runs: one file per command, and the folder that a command leaves behind."""
