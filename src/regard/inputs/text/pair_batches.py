"""Batches of stored pairs of texts."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import PlannedBatches, padded
from regard.inputs.text.pair_store import PairStore
from regard.special_tokens import END, PAD


@dataclass(frozen=True)
class PairBatch:
    """Padded token ids. Both sides end with `</s>`; the target does not begin with `<s>`.

    `rows` names the pairs in the store. It is empty where a process has no share of a batch: then there is one row
    whose target is padding only, so that the model runs and the loss counts nothing.
    """

    source: Int[Tensor, "B S"]
    target: Int[Tensor, "B T"]
    rows: Int[Tensor, " R"]

    def to(self, device: torch.device | str) -> "PairBatch":
        return PairBatch(self.source.to(device), self.target.to(device), self.rows.to(device))


class TokenBatches(PlannedBatches[PairBatch]):
    """The batches of a store of pairs."""

    def __init__(
        self,
        store: PairStore,
        max_tokens: int,
        *,
        max_sentences: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(*store.lengths(), max_tokens, max_sentences=max_sentences, seed=seed)
        self._store = store

    def batch(self, rows: NDArray[np.int64]) -> PairBatch:
        """The given pairs of the store, padded."""
        store = self._store
        if not len(rows):
            nothing = torch.empty(0, dtype=torch.int64)
            return PairBatch(torch.tensor([[END]]), torch.tensor([[PAD]]), nothing)
        return PairBatch(
            padded([store.source_ids[store.source_at[row] : store.source_at[row + 1]] for row in rows]),
            padded([store.target_ids[store.target_at[row] : store.target_at[row + 1]] for row in rows]),
            torch.from_numpy(rows.astype(np.int64)),
        )
