"""Base class of decoders; beams of a sentence share one copy of the sentence's memory.

A decoder state has N = B · copies rows: the first `copies` rows attend to memory row 0, the next to row 1, and so on.
Selecting rows keeps that shape if possible, so keys and values of the memory are not repeated for each beam.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.layers.embedding import Embedding


class Decoder(nn.Module, ABC):
    """Reads tokens, attends to a memory, and returns the features for the output layer."""

    embedding: Embedding
    feature_width: int

    @abstractmethod
    def forward(self, tokens: Int[Tensor, "B T"], memory: Memory) -> Float[Tensor, "B T D"]:
        """Return the features of every step at once (teacher forcing)."""

    @abstractmethod
    def start(self, memory: Memory, copies: int = 1, *, watch: bool = False) -> Any:
        """Return the state before the first step, with `copies` rows for each row of the memory.

        With `watch`, the state after a step has `weights`, (N, K): the attention weights of that step.
        """

    @abstractmethod
    def step(self, tokens: Int[Tensor, " N"], state: Any) -> tuple[Float[Tensor, "N D"], Any]:
        """Take one step for each row. The input state is unchanged."""


class Sharing(NamedTuple):
    """After a selection: which memory rows are left (None: all of them, in order), and how many rows share each."""

    memory_rows: Int[Tensor, " B"] | None
    copies: int


def share(rows: Int[Tensor, " M"], memory_rows: int, copies: int) -> Sharing:
    """`rows` were selected of `memory_rows` · `copies`. Neighbors share a memory row, if all groups are equal."""
    owner = rows // copies
    unique, counts = torch.unique_consecutive(owner, return_counts=True)
    sizes = counts.tolist()
    if len(set(sizes)) == 1:
        owner, copies = unique, sizes[0]
    else:
        copies = 1
    unchanged = len(owner) == memory_rows and bool((owner == torch.arange(memory_rows, device=owner.device)).all())
    return Sharing(None if unchanged else owner, copies)


def stack_rows(rows: Tensor, others: Tensor, *, dim: int, fill: float = 0.0) -> Tensor:
    """Concatenate rows; the tensor that is shorter along `dim` is padded at its end."""
    missing = [max(rows.shape[dim], others.shape[dim]) - part.shape[dim] for part in (rows, others)]
    after = [0, 0] * (rows.dim() - 1 - dim)
    filled = [
        F.pad(part, [*after, 0, more], value=fill) if more else part
        for part, more in zip((rows, others), missing, strict=True)
    ]
    return torch.cat(filled)
