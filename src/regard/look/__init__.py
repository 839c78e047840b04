"""Pictures of attention: in the terminal, and as SVG for pages and files."""

from regard.look.svg import heat_map
from regard.look.terminal import matrix

__all__ = ["heat_map", "matrix"]
