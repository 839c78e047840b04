"""Batches of labeled texts: a budget of tokens, texts of like length, in an order that two integers name.

What goes together and in which order is planned by `TokenBatches`; here are the texts as an encoder reads them (with a
first token, [CLS], where it has one, and its own padding) and the labels as a loss wants them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from regard.data.special_ids import SpecialIds
from regard.errors import CallError
from regard.inputs.text.pair_batches import TokenBatches
from regard.inputs.text.pair_store import PairStore
from regard.outputs.labels.labels import UNKNOWN, Labels


@dataclass(frozen=True)
class LabeledBatch:
    """What an encoder reads, and the labels: a class a row, or a row of zeros and ones. A row of −1 counts nothing."""

    inputs: Tensor
    labels: Tensor

    def to(self, device: torch.device | str) -> "LabeledBatch":
        return LabeledBatch(self.inputs.to(device, non_blocking=True), self.labels.to(device, non_blocking=True))


@dataclass(frozen=True)
class Frame:
    """How token ids become what an encoder reads: `first` (or nothing) before them, `end` after, and padding."""

    first: int | None
    end: int
    pad: int

    @classmethod
    def of(cls, specials: SpecialIds, *, first: bool) -> "Frame":
        if specials.end is None or specials.pad is None or (first and specials.start is None):
            raise CallError("this vocabulary has no tokens that begin, end and pad a text, which an encoder needs")
        return cls(specials.start if first else None, specials.end, specials.pad)

    def padded(self, ended: Sequence[NDArray | Sequence[int]]) -> Int[Tensor, "B S"]:
        """Texts that have their end token."""
        begin = 0 if self.first is None else 1
        table = np.full((len(ended), begin + max(map(len, ended), default=0)), self.pad, np.int64)
        if self.first is not None:
            table[:, 0] = self.first
        for row, ids in zip(table, ended, strict=True):
            row[begin : begin + len(ids)] = ids
        return torch.from_numpy(table)

    def read(self, texts: Sequence[Sequence[int]]) -> Int[Tensor, "B S"]:
        """Texts as `encode` gives them."""
        return self.padded([[*ids, self.end] for ids in texts])


class LabeledBatches:
    """The batches of a store, epoch by epoch; see `training.protocols.Batches`."""

    def __init__(self, store: PairStore, labels: Labels, frame: Frame, max_tokens: int, *, seed: int = 0) -> None:
        self._store, self._labels, self._frame = store, labels, frame
        self._plan = TokenBatches(store, max_tokens, seed=seed)

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[LabeledBatch]:
        for rows in self._plan.plan(number)[start:]:
            yield self.batch(rows[rank::world])

    def len_epoch(self, number: int) -> int:
        return self._plan.len_epoch(number)

    def fill(self) -> float:
        return self._plan.fill()

    def in_order(self) -> Iterator[tuple[NDArray[np.int64], LabeledBatch]]:
        """Every row of the store once, with its number: for scores."""
        for rows in self._plan.plan(0):
            yield rows, self.batch(rows)

    def batch(self, rows: NDArray[np.int64]) -> LabeledBatch:
        """The given rows. Where there are none (a process without a share), one that counts nothing."""
        if not len(rows):
            nothing = np.full((1, len(self._labels)) if self._labels.several else 1, UNKNOWN, np.float32)
            labels = torch.from_numpy(nothing if self._labels.several else nothing.astype(np.int64))
            return LabeledBatch(self._frame.read([[]]), labels)
        pairs = [self._store[int(row)] for row in rows]
        labels = self._labels.target([self._labels.decode(target) for _, target in pairs])
        return LabeledBatch(self._frame.padded([source for source, _ in pairs]), torch.from_numpy(labels))
