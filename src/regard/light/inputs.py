"""Inputs of graphs: `regard.inputs.base.Input` without training, models and explanation."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from regard.errors import CallError
from regard.light.description import Description
from regard.light.session import Arrays
from regard.look.axis import Axis


class LightInput(ABC):
    kind: ClassVar[str]  # text, image, sound
    array_dims: ClassVar[int] = 0
    takes_files: ClassVar[bool] = False

    def __init__(self, about: Description) -> None:
        self.recipe: Any = about.recipe
        self.reads = about.reads

    def with_recipe(self, recipe: Any) -> Any:
        """Return a copy under a changed recipe."""
        changed = copy(self)
        changed.recipe = recipe
        return changed

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.kind,)

    def parse(self, words: Sequence[str]) -> list[Any]:
        """Parse command-line arguments into inputs."""
        return list(words)

    def word(self, one: Any) -> str:
        return self.name(one)

    def name(self, one: Any) -> str:
        return str(one)

    def subject(self, file: str) -> Any:
        raise CallError("--about is for questions, and this model takes none")

    def about(self, words: Sequence[str], subject: Any) -> list[Any]:
        return [(subject, word) for word in words]

    def heard(self, one: Any) -> bytes | None:
        return None

    def is_one(self, given: Any) -> bool:
        """Whether a Python value is one input rather than several."""
        if isinstance(given, str | bytes | Mapping | Path) or hasattr(given, "_fields"):
            return True
        return not isinstance(given, Iterable) or 0 < getattr(given, "ndim", 0) <= self.array_dims

    def readable(self, inputs: Sequence[Any]) -> tuple[list[Any], list[str]]:
        """Return the readable inputs, and an error sentence for each of the others."""
        good, problems = [], []
        for one in inputs:
            try:
                for _ in self.windows(one):
                    pass
                good.append(one)
            except CallError as problem:
                problems.append(str(problem))
        return good, problems

    def item_of(self, one: Any) -> Any:
        """Return the item of an input to look at. Raise if it is empty."""
        item = self.read(one)
        if not self.length(item):
            raise CallError(f"the input {self.name(one)!r} has no token: there is nothing to look at")
        return item

    @abstractmethod
    def read(self, one: Any) -> Any:
        """Return the item of one input."""

    def windows(self, one: Any) -> Iterable[Any]:
        """Yield the items of an input: one, or several if it is longer than the model's limit."""
        yield self.read(one)

    @abstractmethod
    def length(self, item: Any) -> int:
        """Return the number of vectors of the item; 0: it is empty."""

    @abstractmethod
    def collate(self, items: Sequence[Any]) -> Arrays:
        """Return the arrays of several items for the graph."""

    @abstractmethod
    def axis(self, item: Any) -> Axis:
        """Return the axis of the memory's vectors, for figures."""


def padded_ids(rows: Sequence[Sequence[int]], pad: int) -> np.ndarray:
    """Return token ids with padding after shorter rows."""
    table = np.full((len(rows), max(map(len, rows))), pad, np.int64)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table


def padded(sequences: Sequence[np.ndarray]) -> Arrays:
    """Return rows of numbers with zeros after shorter ones, as `data.batches.Padded`."""
    lengths = np.array([len(one) for one in sequences], np.int64)
    values = np.zeros((len(sequences), int(lengths.max()), sequences[0].shape[1]), np.float32)
    for row, one in zip(values, sequences, strict=True):
        row[: len(one)] = one
    return {"values": values, "lengths": lengths}
