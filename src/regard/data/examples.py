"""Examples: inputs and what is to come out of them, one split on disk or in memory, and batches for training.

Whatever the kinds are, an example is an input and a target that is written as ids: tokens of a text, or the classes of
labels. An input's folder brings the one, an output's vocabulary the other, and what is below is the same for all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import PlannedBatches
from regard.data.counts import ReadReport
from regard.data.example import Example

S = TypeVar("S")


@dataclass(frozen=True)
class Batch(Generic[S]):
    """What an encoder reads, and what a loss is taken against."""

    source: S
    target: Tensor

    def to(self, device: torch.device | str) -> "Batch[S]":
        source: Any = self.source
        return Batch(source.to(device), self.target.to(device, non_blocking=True))


class Examples(ABC):
    """One split. Rows are numbered; an input may stand in several of them, with another target in each."""

    name: str  # of the file, for reports
    counts: ReadReport  # what was read, and what could not be used

    @abstractmethod
    def __len__(self) -> int: ...

    def in_epoch(self, number: int) -> "Examples":
        """What an epoch of training reads, where epochs differ in their rows or in how long these are."""
        return self

    @abstractmethod
    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """How many vectors each input becomes, and how many ids its target has."""

    @abstractmethod
    def source(self, rows: NDArray[np.int64], epoch: int) -> Any:
        """What an encoder reads of these rows, changed for training as this epoch wants it."""

    @abstractmethod
    def target(self, row: int) -> NDArray[Any]:
        """The ids of a target, its end token included."""

    def overlong(self) -> list[tuple[int, Any]]:
        """Rows of whose input `source` gives a part only, with the input: a model reads it in windows for a score."""
        return []

    @abstractmethod
    def digest(self) -> str:
        """Tells whether two splits hold the same."""

    def targets_read(self) -> Iterator[tuple[str, int]]:
        """The text of every target that was read, also of what was left out then, and its line; 0: there are none."""
        return iter(())

    @abstractmethod
    def examples(self, most: int) -> list[Example]:
        """At most so many inputs, spread over the whole split, each once, with all their texts; always the same."""

    def sample(self, most: int) -> list[Example]:
        """About so many inputs, spread over the whole split."""
        return self.examples(most)


class ExampleBatches(PlannedBatches[Batch[Any]]):
    """`collate` makes what a loss wants of the targets of a batch; of none at all, a row that counts nothing."""

    def __init__(
        self,
        examples: Examples,
        collate: Callable[[Sequence[NDArray[Any]]], Tensor],
        max_tokens: int,
        *,
        seed: int = 0,
        ahead: bool = False,
    ) -> None:
        self._examples, self._collate = examples, collate
        super().__init__(*examples.lengths(), max_tokens, seed=seed, ahead=ahead)

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        self.measure(*self._examples.in_epoch(epoch).lengths())
        return super()._plan(epoch)

    def batch(self, rows: NDArray[np.int64], epoch: int = 0) -> Batch[Any]:
        examples = self._examples.in_epoch(epoch)
        if not len(rows):  # a process without a share: one input, and nothing to say of it
            return Batch(examples.source(np.zeros(1, np.int64), epoch), self._collate([]))
        targets = [examples.target(int(row)) for row in rows]
        return Batch(examples.source(rows, epoch), self._collate(targets))

    def in_order(self) -> Iterator[tuple[NDArray[np.int64], Batch[Any]]]:
        """Every row once, with its number: for scores."""
        for rows in self.plan(0):
            yield rows, self.batch(rows)
