"""Geometry: metrics and paths."""
