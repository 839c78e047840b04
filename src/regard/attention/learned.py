"""Learned positions: a vector for each position up to a maximum.

    x_t + P[t]        P: a table of parameters

Gehring et al. 2017, section 3.1, arXiv:1705.03122.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.positions import Combine, known_combine, with_positions


class Learned(nn.Module):
    """A learned vector for each of `length` positions."""

    def __init__(self, width: int, length: int, *, combine: Combine = "add"):
        super().__init__()
        self.combine: Combine = known_combine(combine)
        self.table = nn.Parameter(torch.empty(length, width))
        nn.init.normal_(self.table, std=0.02)  # as in BERT and GPT-2: well below the size of embeddings

    def forward(self, x: Float[Tensor, "*b T D"], start: int | Int[Tensor, " N"] = 0) -> Float[Tensor, "*b T E"]:
        """`start`: position of the first of the T vectors (in decoding, the steps so far), for all rows or one
        for each row, with T = 1."""
        stop = int(start.max()) + 1 if isinstance(start, Tensor) else start + x.shape[-2]
        if stop > len(self.table):
            raise ValueError(
                f"a sequence reaches position {stop}, but positions were learned up to {len(self.table)}; cut the "
                "sequence, or train with a longer table or with sinusoidal positions"
            )
        table = self.table[start].unsqueeze(1) if isinstance(start, Tensor) else self.table[start:stop]
        return with_positions(x, table, self.combine)
