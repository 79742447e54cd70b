"""Features: what an input is, and which of its features belong together."""
