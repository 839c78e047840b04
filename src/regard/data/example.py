"""One example, whatever its kinds are."""

from typing import Any, NamedTuple


class Example(NamedTuple):
    """An input as a person would give it, and the texts that would be right; `gold` is what else its corpus knows."""

    input: Any
    texts: tuple[str, ...]
    gold: Any = None
