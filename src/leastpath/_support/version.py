"""The version, where everything can read it: stores write it beside their results."""

__version__ = "0.1.0"
