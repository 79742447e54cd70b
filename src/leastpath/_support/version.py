"""The version of the package, which stores also write beside their results."""

__version__ = "0.3.0"
