"""Result: what a call returns, in numbers and in words."""
