"""Formats of labels in files: one or several, as texts, numbers or lists, with optional names. A label with an empty
name counts as missing."""

import ast
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

MISSING = frozenset(("nan", "NaN", "<NA>", "NaT", "None", "null", "NULL"))  # how programs write a missing label


@dataclass(frozen=True)
class Writing:
    """A label format. `separator`: of several labels; None: one per example. `names`: (label in the file, name)."""

    separator: str | None = None
    names: tuple[tuple[str, str], ...] = ()

    def __call__(self, value: object) -> object:
        """Return a label of a file as text; empty if there is none. With several labels, an empty set is a lone
        separator."""
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, int):
            value = str(value)
        elif isinstance(value, float) and (
            value != value or value.is_integer()
        ):  # whole numbers as floats come from a table with gaps
            value = "" if value != value else str(int(value))
        if self.separator is None:
            return self._named(self._present(value.strip())) if isinstance(value, str) else value
        if isinstance(value, list | tuple):
            parts = [str(part) for part in value]
        elif value is None or isinstance(value, str):
            parts = split_labels(value or "", self.separator)
        else:
            return value
        parts = (self._present(part.strip()) for part in parts)
        found = dict.fromkeys(self._named(part) for part in parts if part)
        return self.separator.join(sorted(found)) or self.separator

    def labels(self, text: str) -> tuple[str, ...]:
        """Return the labels in a requested output."""
        if self.separator is None:
            return (text,)
        return tuple(part for part in text.split(self.separator) if part)

    def joined(self, labels: Iterable[str]) -> str:
        return (self.separator or "|").join(labels)

    def is_missing(self, label: str) -> bool:
        """Return whether a label is missing. `names` may define such a word as a class, or a class as missing."""
        label, names = label.strip(), dict(self.names)
        return not names.get(label, "" if label in MISSING else label)

    def _present(self, label: str) -> str:
        return "" if self.is_missing(label) else label

    def _named(self, label: str) -> str:
        return dict(self.names).get(label, label)


def split_labels(text: str, separator: str) -> list[str]:
    """Return the labels of a cell with several: split at the separator, or from a list as written by a program."""
    parts = list_in(text)
    return text.split(separator) if parts is None else parts


def list_in(text: str) -> list[str] | None:
    """Return the items of a list that is written as text: ["a", "b"] of JSON, ['a', 'b'] of Python, ['a' 'b'] of numpy;
    None for other texts."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text if read is json.loads else re.sub(r"(?<=['\"])\s+(?=['\"])", ", ", text))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, list) and all(isinstance(one, str | int | float) for one in found):
            return [str(one) for one in found]
    return None
