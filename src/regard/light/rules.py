"""Constraints on the next token, and hypotheses: `regard.decoding.constraints` over arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from regard.errors import CallError
from regard.special_tokens import END, PAD, START


class Hypothesis(NamedTuple):
    """One output. `log_probability` is the model's, including the end symbol; n-best lists are ordered by `score`."""

    tokens: list[int]  # without <s> and </s>
    score: float
    log_probability: float


@dataclass(frozen=True)
class Rules:
    """Constraints of outputs. Lengths exclude the end symbol; `prefix` is forced."""

    max_length: int
    min_length: int = 0
    prefix: Sequence[int] = ()
    forbidden: Sequence[int] = (PAD, START)

    def __post_init__(self) -> None:
        if not 0 <= self.min_length <= self.max_length:
            raise CallError(f"min_length={self.min_length} must be between 0 and max_length={self.max_length}")
        if len(self.prefix) > self.max_length:
            raise CallError(f"the prefix has {len(self.prefix)} tokens: max_length={self.max_length} is too small")
        if any(token in (PAD, START, END, *self.forbidden) for token in self.prefix):
            raise CallError(f"the prefix contains a token that cannot be generated: {list(self.prefix)}")

    def apply(self, logits: np.ndarray, step: int) -> None:
        """Set forbidden tokens of this step to −∞, in place."""
        logits[:, list(self.forbidden)] = -np.inf
        if step < self.min_length:
            logits[:, END] = -np.inf
        forced = END if step >= self.max_length else self.prefix[step] if step < len(self.prefix) else None
        if forced is not None:
            kept = logits[:, forced].copy()
            logits[:] = -np.inf
            logits[:, forced] = kept


def normalizer(logits: np.ndarray) -> np.ndarray:
    """log Σ_v exp(logits_v)"""
    top = logits.max(axis=-1, keepdims=True)
    return np.log(np.exp(logits - top).sum(axis=-1)) + top[..., 0]
