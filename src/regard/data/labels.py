"""The classes of a job: their ordered names, and their format in files.

A label in a file is a text, a number, or (several labels) a list or a text with a separator. In stored data and batches
a class is a token after the four special ones. An example with the classes 0 and 2 is stored as `4 6 </s>`, and an
unknown label as `<unk>`. So the code for pairs of texts stores, checks and batches texts with labels, too.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from regard.data.vocabulary import OURS, SpecialIds
from regard.errors import CallError, RegardError, nearest
from regard.files import atomic
from regard.special_tokens import END, SPECIAL_TOKENS, UNK

# One example of any kind.


class Example(NamedTuple):
    """An input as a user would give it, and its reference texts. `gold` is additional knowledge of the corpus."""

    input: Any
    texts: tuple[str, ...]
    gold: Any = None


# Formats of labels in files: one or several, as texts, numbers or lists, with optional names. A label with an empty
# name counts as missing.

MISSING = frozenset(("nan", "NaN", "<NA>", "NaT", "None", "null", "NULL"))  # how programs write a missing label


@dataclass(frozen=True)
class LabelFormat:
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


FIRST = len(SPECIAL_TOKENS)  # the token of class 0
UNKNOWN = -1  # the class of an unknown label, and of a padding row


class Labels:
    """The classes, in order. A store uses them as a vocabulary: `size`, `specials`, `encode_batch`."""

    specials: SpecialIds = OURS

    def __init__(self, names: Sequence[str], writing: LabelFormat) -> None:
        self.names, self.writing = tuple(names), writing
        self._index = {name: number for number, name in enumerate(self.names)}

    @classmethod
    def learn_labels(cls, labels: Iterable[str], writing: LabelFormat) -> "Labels":
        """Learn the classes from the labels of the training data. Numbers are sorted by value."""
        found = {label for text in labels for label in writing.labels(text)}
        return cls(sorted(found, key=lambda label: (int(label) if label.isdecimal() else float("inf"), label)), writing)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def several(self) -> bool:
        """Return whether an example may have more than one label, or none."""
        return self.writing.separator is not None

    @property
    def size(self) -> int:
        return FIRST + len(self)

    def classes(self, labels: Iterable[str]) -> list[int]:
        return [self._index.get(label, UNKNOWN) for label in labels]

    def require(self, label: str) -> int:
        if label not in self._index:
            raise CallError(f"unknown label: {label!r}{nearest(label, self.names)}")
        return self._index[label]

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Return the tokens of label texts in the format of files."""
        classes = (self.classes(self.writing.labels(text)) for text in texts)
        return [[UNK if number == UNKNOWN else FIRST + number for number in some] for some in classes]

    def decode(self, tokens: NDArray) -> tuple[int, ...]:
        """Return the classes of stored tokens."""
        return tuple(UNKNOWN if token == UNK else int(token) - FIRST for token in tokens if token != END)

    def target(self, rows: Sequence[Sequence[int]]) -> NDArray[np.int64] | Float[np.ndarray, "B N"]:
        """Return the target of a loss: one class per row; with several labels, a row of zeros and ones."""
        if not self.several:
            return np.array([row[0] for row in rows], np.int64)
        table = np.zeros((len(rows), len(self)), np.float32)
        for number, row in enumerate(rows):
            table[number, [one for one in row if one != UNKNOWN]] = 1.0
        return table

    def to_json(self) -> str:
        about = {"names": self.names, "separator": self.writing.separator, "called": dict(self.writing.names)}
        return json.dumps(about, ensure_ascii=False, indent=1)

    def save(self, path: Path) -> None:
        atomic.write_text(path, self.to_json())

    @classmethod
    def from_json(cls, written: str) -> "Labels":
        about = json.loads(written)
        return cls(about["names"], LabelFormat(about["separator"], tuple(about["called"].items())))

    @classmethod
    def load(cls, path: Path) -> "Labels":
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError) as problem:
            raise RegardError(f"{path}: is not a valid list of labels ({problem})") from None


# Evenly spaced samples. Neighbors in a file are often similar, so the first rows are not representative.

T = TypeVar("T")


class Spread(Generic[T]):
    """Sample of a stream of unknown length: every first, second, fourth, eighth, ... item, in order.

    most   as many are kept, at the most, and at least half as many
    size   of an item; fewer are kept if all of them together are larger than `largest`
    """

    def __init__(self, most: int, size: Callable[[T], int] = lambda item: 1, largest: int | None = None) -> None:
        self.items: list[T] = []
        self._most, self._size, self._largest = most, size, most if largest is None else largest
        self._step, self._seen, self._total = 1, 0, 0

    def add(self, item: T) -> None:
        if self._seen % self._step == 0:
            self.items.append(item)
            self._total += self._size(item)
        self._seen += 1
        while len(self.items) > 1 and (len(self.items) > self._most or self._total > self._largest):
            self.items, self._step = self.items[::2], 2 * self._step
            self._total = sum(map(self._size, self.items))

    @classmethod
    def of(cls, items: Iterable[T], most: int) -> list[T]:
        found = cls(most)
        for item in items:
            found.add(item)
        return found.items


def evenly(items: Sequence[T], most: int) -> list[T]:
    """Return at most `most` evenly spaced items, from the first on."""
    count = min(most, len(items))
    return [items[place * len(items) // count] for place in range(count)]
