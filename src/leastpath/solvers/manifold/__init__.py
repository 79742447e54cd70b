"""Curves on the range of a decoder."""
