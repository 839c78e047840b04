"""Implementations of the longer commands, one file each, also callable from scripts."""
