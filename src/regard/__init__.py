"""regard: train attention models on your own data, and see where they look."""

__version__ = "0.1.0"
