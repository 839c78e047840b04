"""Safe display of untrusted text in a terminal: tokens may contain escape sequences or direction marks.

These are replaced: by ␛ for the escape character, by � if there is no such sign. Line ends stay.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

_SIGNS = {code: 0x2400 + code for code in range(0x20) if code != ord("\n")} | {0x7F: 0x2421}
_SIGNS |= dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)


def visible(text: str) -> str:
    return text.translate(_SIGNS)


class Visible:
    """A rich renderable with control characters replaced; colors and styles stay."""

    def __init__(self, drawn: "RenderableType") -> None:
        self._drawn = drawn

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Segment]":
        for segment in console.render(self._drawn, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))
