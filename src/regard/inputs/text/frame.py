"""How token ids become what an encoder reads.

<s>   text   </s>   <pad> …        an encoder whose first vector stands for the whole text ([CLS])
      text   </s>   <pad> …        the encoders of sequence to sequence
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from regard.data.special_ids import SpecialIds
from regard.errors import CallError


@dataclass(frozen=True)
class Frame:
    """`first` (or nothing) before the text, `end` after it, and padding."""

    first: int | None
    end: int
    pad: int

    @classmethod
    def of(cls, specials: SpecialIds, *, first: bool) -> "Frame":
        if specials.end is None or specials.pad is None or (first and specials.start is None):
            raise CallError("this vocabulary has no tokens that begin, end and pad a text, which an encoder needs")
        return cls(specials.start if first else None, specials.end, specials.pad)

    @property
    def before(self) -> int:
        """How many tokens stand before the text."""
        return 0 if self.first is None else 1

    def padded(self, ended: Sequence[NDArray | Sequence[int]]) -> Int[Tensor, "B S"]:
        """Texts that have their end token."""
        begin = self.before
        table = np.full((len(ended), begin + max(map(len, ended), default=0)), self.pad, np.int64)
        if self.first is not None:
            table[:, 0] = self.first
        for row, ids in zip(table, ended, strict=True):
            row[begin : begin + len(ids)] = ids
        return torch.from_numpy(table)

    def read(self, texts: Sequence[Sequence[int]]) -> Int[Tensor, "B S"]:
        """Texts as `encode` gives them."""
        return self.padded([[*ids, self.end] for ids in texts])
