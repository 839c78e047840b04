"""Vectors of unequal number in one tensor: frames of recordings, steps of series."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence


@dataclass(frozen=True)
class Padded:
    """B sequences, padded with zeros at the end, and how many vectors each has."""

    values: Float[Tensor, "B S F"]
    lengths: Int[Tensor, " B"]

    @classmethod
    def of(cls, sequences: Sequence[Float[Tensor, "..."]]) -> "Padded":
        return cls(pad_sequence(list(sequences), batch_first=True), torch.tensor([len(one) for one in sequences]))

    def to(self, device: torch.device | str) -> "Padded":
        return Padded(self.values.to(device, non_blocking=True), self.lengths.to(device, non_blocking=True))
