"""Joint decoding: weighted scores of attention, CTC and a language model.

    score(c | g, x) = (1 − λ) log p_attention(c | g, x) + λ (ψ(g c) − ψ(g)) + β log p_lm(c | g)

Joint decoding: Hori, Watanabe and Hershey 2017, ACL, section 3.2. Shallow fusion: Gülçehre et al. 2015, section 4.1
(arXiv:1503.03535). Each part only falls from step to step, as beam search needs it to. The sum is no probability: it
is searched as it is (`beam(..., normalize=False)`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.ctc import Prefixes
from regard.decoding.protocol import State, Steps


@dataclass(frozen=True)
class LanguageModelVoice:
    """A language model, how much it counts, and which of its tokens is each of ours."""

    model: Steps[Any]
    start: Callable[[int], State]  # its state before the first token of so many texts
    weight: float
    tokens: Int[Tensor, " V"]


@dataclass(frozen=True)
class JointState:
    decoder: Any
    prefixes: Prefixes | None
    language: Any
    started: bool = False
    joins = False  # the sounds that are behind prefixes differ in length

    @property
    def rows(self) -> int:
        return self.decoder.rows

    @property
    def device(self) -> torch.device:
        return self.decoder.device

    @property
    def weights(self) -> Float[Tensor, "N K"] | None:
        return self.decoder.weights

    def select(self, rows: Int[Tensor, " M"]) -> "JointState":
        return JointState(
            self.decoder.select(rows),
            None if self.prefixes is None else self.prefixes.select(rows),
            None if self.language is None else self.language.select(rows),
            self.started,
        )

    def join(self, other: "JointState") -> "JointState":
        raise TypeError("recordings that are decoded with CTC or a language model are not joined by others")


class Joint:
    """A model whose every step also asks the others. Its features are the scores themselves."""

    def __init__(self, model: Steps[Any], *, ctc: float = 0.0, language: LanguageModelVoice | None = None) -> None:
        self.model, self.ctc, self.language = model, ctc, language

    def step(self, tokens: Int[Tensor, " N"], state: JointState) -> tuple[Float[Tensor, "N V"], JointState]:
        features, decoder = self.model.step(tokens, state.decoder)
        scores = self.model.logits(features).log_softmax(-1, dtype=torch.float32)
        started, state = state.started, replace(state, decoder=decoder, started=True)
        if state.prefixes is not None:
            # The first step reads <s>, which is no token of the text.
            prefixes = state.prefixes.step(tokens) if started else state.prefixes
            scores = (1 - self.ctc) * scores + self.ctc * prefixes.gains()
            state = replace(state, prefixes=prefixes)
        if self.language is not None:
            features, language = self.language.model.step(self.language.tokens[tokens], state.language)
            told = self.language.model.logits(features).log_softmax(-1, dtype=torch.float32)
            scores = scores + self.language.weight * told[:, self.language.tokens]
            state = replace(state, language=language)
        return scores, state

    def logits(self, features: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
        return features
