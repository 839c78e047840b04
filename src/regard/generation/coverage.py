"""Coverage: the attention of all steps so far, to prefer beams that attend to the whole input.

    covered[s] = Σ_t a[t, s]          coverage(y) = Σ_s log min(covered[s], 1)          s over the vectors of the memory

Wu et al. 2016, eq. 14 (arXiv:1609.08144).
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import CallError
from regard.generation.engine import DecoderSteps


@dataclass(frozen=True)
class CoveredState:
    decoder: Any
    covered: Float[Tensor, "N K"] | float = 0.0
    joins = False  # memories of other lengths have other columns

    @property
    def rows(self) -> int:
        return self.decoder.rows

    @property
    def device(self) -> torch.device:
        return self.decoder.device

    def select(self, rows: Int[Tensor, " M"]) -> "CoveredState":
        covered = self.covered[rows] if isinstance(self.covered, Tensor) else self.covered
        return CoveredState(self.decoder.select(rows), covered)

    def join(self, other: "CoveredState") -> "CoveredState":
        raise TypeError("sentences whose coverage counts are not joined by others")

    def coverage(self, row: int) -> float:
        """A vector that no step may look at (padding) has weight exactly 0, and is left out."""
        assert isinstance(self.covered, Tensor)
        covered = self.covered[row]
        return float(covered[covered > 0].clamp(max=1.0).log().sum())


class Covering:
    """A model whose state adds up where it looked; its decoder has to be started with watch=True."""

    def __init__(self, model: DecoderSteps[Any]) -> None:
        self.model = model

    def step(self, tokens: Int[Tensor, " N"], state: CoveredState) -> tuple[Float[Tensor, "N D"], CoveredState]:
        features, decoder = self.model.step(tokens, state.decoder)
        weights = getattr(decoder, "weights", None)
        if weights is None:
            raise CallError("the coverage penalty needs a decoder that attends, started with watch=True")
        return features, CoveredState(decoder, state.covered + weights)

    def logits(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        return self.model.logits(features)
