"""The direct descent of length: the solver and its stages."""
