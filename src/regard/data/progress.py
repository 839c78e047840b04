"""Long work on data says how far it is: on standard error, and only if it takes longer than two seconds."""

import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 2.0  # seconds before anything is said
EVERY = 1.0  # seconds between two words on a terminal; a file gets a line in half a minute
EVERY_IN_FILES = 30.0


def watched(items: Iterable[T], doing: str, every: int = 256) -> Iterator[T]:
    """The same items; `doing`, such as "reading train.tsv", is said with their number, if they are long in coming.

    `every`: after so many items one looks at the clock."""
    terminal = sys.stderr.isatty()
    begin = monotonic()
    due, spoken, number = begin + PATIENCE, False, 0
    for number, item in enumerate(items, start=1):
        yield item
        if number % every == 0 and (now := monotonic()) >= due:
            spoken, due = True, now + (EVERY if terminal else EVERY_IN_FILES)
            _say(f"{doing}: {number:,} in {now - begin:.0f} s", terminal)
    if spoken:
        _say(f"{doing}: {number:,} in {monotonic() - begin:.0f} s", terminal, last=True)


def _say(text: str, terminal: bool, *, last: bool = False) -> None:
    line = f"\r\x1b[K{text}" if terminal else text
    print(line, end="\n" if last or not terminal else "", file=sys.stderr, flush=True)
