"""The classes of a job: their ordered names, and their format in files.

A label in a file is a text, a number, or (several labels) a list or a text with a separator. In stored data and batches
a class is a token after the four special ones. An example with the classes 0 and 2 is stored as `4 6 </s>`, and an
unknown label as `<unk>`. So the code for pairs of texts stores, checks and batches texts with labels, too.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from regard.data.label_writing import Writing
from regard.data.special_ids import OURS, SpecialIds
from regard.errors import CallError, RegardError, nearest
from regard.files import atomic
from regard.special_tokens import END, SPECIAL_TOKENS, UNK

FIRST = len(SPECIAL_TOKENS)  # the token of class 0
UNKNOWN = -1  # the class of an unknown label, and of a padding row


class Labels:
    """The classes, in order. A store uses them as a vocabulary: `size`, `specials`, `encode_batch`."""

    specials: SpecialIds = OURS

    def __init__(self, names: Sequence[str], writing: Writing) -> None:
        self.names, self.writing = tuple(names), writing
        self._index = {name: number for number, name in enumerate(self.names)}

    @classmethod
    def learned(cls, labels: Iterable[str], writing: Writing) -> "Labels":
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
        return cls(about["names"], Writing(about["separator"], tuple(about["called"].items())))

    @classmethod
    def load(cls, path: Path) -> "Labels":
        try:
            return cls.from_json(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError) as problem:
            raise RegardError(f"{path}: is not a valid list of labels ({problem})") from None
