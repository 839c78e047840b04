"""What a model costs before it is built, and what layers cost when measured."""
