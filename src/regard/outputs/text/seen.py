"""Where a text that was written looked, as arrays, whoever asked its model. No torch."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Ids = Sequence[int]


@dataclass(frozen=True)
class CrossAttention:
    """Each attention's heads × tokens (the end included) × vectors of the memory; empty for a model without any."""

    weights: dict[str, np.ndarray]
    ctc: list[tuple[int, int]] | None = None  # by CTC: the first and last vector of each token

    @property
    def mean(self) -> Float[np.ndarray, "T K"]:
        """Over all heads of all layers."""
        return np.mean([heads.mean(axis=0) for heads in self.weights.values()], axis=0)
