"""One input that is made of two."""

from collections.abc import Mapping, Sequence
from typing import Any


def two_of(one: Any, names: Sequence[str], apart: str = "\t") -> tuple[Any, Any] | None:
    """Of a pair, a mapping of both by their names, or a text with a tab between; None, if it is none of these."""
    if isinstance(one, str):
        first, found, second = one.partition(apart)
        return (first, second) if found else None
    if isinstance(one, Mapping):
        return (one[names[0]], one[names[1]]) if set(one) == set(names) else None
    return tuple(one) if isinstance(one, tuple | list) and len(one) == 2 else None
