"""Examples: inputs with targets, one split on disk or in memory, and batches for training.

An example of any kind is an input and a target that is encoded as ids: tokens of a text, or classes. An input's folder
provides the former, an output's vocabulary the latter; the code here is shared.
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
from regard.data.labels import Example
from regard.data.pairs import ReadReport

S = TypeVar("S")


@dataclass(frozen=True)
class ExampleBatch(Generic[S]):
    """The input of an encoder, and the target of a loss."""

    source: S
    target: Tensor

    def to(self, device: torch.device | str) -> "ExampleBatch[S]":
        source: Any = self.source
        return ExampleBatch(source.to(device), self.target.to(device, non_blocking=True))


class Examples(ABC):
    """One split. Rows are numbered; an input may occur in several rows, with another target in each."""

    name: str  # of the file, for reports
    counts: ReadReport  # what was read, and what could not be used

    @abstractmethod
    def __len__(self) -> int: ...

    def in_epoch(self, number: int) -> "Examples":
        """Return the examples of an epoch, if epochs differ in their rows or lengths."""
        return self

    @abstractmethod
    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the number of vectors of each input, and of ids of its target."""

    @abstractmethod
    def source(self, rows: NDArray[np.int64], epoch: int) -> Any:
        """Return the encoder input of these rows, with the augmentation of this epoch."""

    @abstractmethod
    def target(self, row: int) -> NDArray[Any]:
        """Return the ids of a target, with its end token."""

    def overlong(self) -> list[tuple[int, Any]]:
        """Return rows whose `source` is only a part of the input, with the input, which is scored in windows."""
        return []

    @abstractmethod
    def digest(self) -> str:
        """Return a digest of the content of the split."""

    def targets_read(self) -> Iterator[tuple[str, int]]:
        """Yield the text and line of every target that was read, including those of skipped examples; 0: no lines."""
        return iter(())

    @abstractmethod
    def examples(self, most: int) -> list[Example]:
        """Return at most `most` inputs, evenly spaced in the split, each once, with all their texts; deterministic."""

    def sample(self, most: int) -> list[Example]:
        """Return about `most` inputs, evenly spaced over the split."""
        return self.examples(most)


class ExampleBatches(PlannedBatches[ExampleBatch[Any]]):
    """Batches of examples. `collate` converts the targets of a batch for the loss; without targets, to a row of no
    weight."""

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

    def batch(self, rows: NDArray[np.int64], epoch: int = 0) -> ExampleBatch[Any]:
        examples = self._examples.in_epoch(epoch)
        if not len(rows):  # a process without a share: one input without a target
            return ExampleBatch(examples.source(np.zeros(1, np.int64), epoch), self._collate([]))
        targets = [examples.target(int(row)) for row in rows]
        return ExampleBatch(examples.source(rows, epoch), self._collate(targets))

    def in_order(self) -> Iterator[tuple[NDArray[np.int64], ExampleBatch[Any]]]:
        """Yield every row once, with its number, for scoring."""
        for rows in self.plan(0):
            yield rows, self.batch(rows)
