"""Inputs that consist of two parts."""

from collections.abc import Mapping, Sequence
from typing import Any


def two_of(one: Any, names: Sequence[str], apart: str = "\t") -> tuple[Any, Any] | None:
    """Split a pair, a mapping with both names, or a text with a tab into two parts; None if it is none of these."""
    if isinstance(one, str):
        first, found, second = one.partition(apart)
        return (first, second) if found else None
    if isinstance(one, Mapping):
        return (one[names[0]], one[names[1]]) if set(one) == set(names) else None
    return tuple(one) if isinstance(one, tuple | list) and len(one) == 2 else None
