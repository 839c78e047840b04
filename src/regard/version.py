"""The version of regard."""

__version__ = "0.1.0"
