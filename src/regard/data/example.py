"""One example of any kind."""

from typing import Any, NamedTuple


class Example(NamedTuple):
    """An input as a user would give it, and its reference texts. `gold` is additional knowledge of the corpus."""

    input: Any
    texts: tuple[str, ...]
    gold: Any = None
