"""Attention of a generated text, as arrays of any backend. Needs no torch."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Ids = Sequence[int]


@dataclass(frozen=True)
class CrossAttention:
    """Weights of each attention: heads × tokens (including the end) × vectors of the memory; empty
    without attention.
    """

    weights: dict[str, np.ndarray]
    ctc: list[tuple[int, int]] | None = None  # the first and last vector of each token by CTC

    @property
    def mean(self) -> Float[np.ndarray, "T K"]:
        """Return the mean over all heads of all layers."""
        return np.mean([heads.mean(axis=0) for heads in self.weights.values()], axis=0)
