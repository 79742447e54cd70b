"""Where the paper did not look: two tables, handwritten digits, and short sentences."""
