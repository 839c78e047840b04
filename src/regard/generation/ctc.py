"""CTC prefix scores for decoding: the probability of a prefix by CTC alone.

Watanabe et al. 2017, "Hybrid CTC/Attention Architecture", algorithm 2; Graves 2008, section 7.5.
For a beginning g, r_n[t] and r_b[t] are the log-probabilities of all paths over frames 0 … t that read g and end in
its last token, or in a blank. The next token c can come first at frame t after any of these at t − 1:

    φ_c[t] = r_b[t]  if c repeats the last token of g (a blank must stand between), else  log(e^{r_b[t]} + e^{r_n[t]})
    ψ(g c) = log Σ_t e^{φ_c[t−1]} p[t, c]                     all outputs that begin with g c
    ψ(g </s>) = log(e^{r_n[T−1]} + e^{r_b[T−1]})               the output g itself

φ differs for one token only, so the sum over t is one matrix product for all c at once; the recursion over frames runs
only for tokens that were chosen. `regard.light.search` has the same over arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.generation.alignment import BLANK, NEVER
from regard.generation.engine import DecoderState, DecoderSteps
from regard.special_tokens import END, START


@dataclass(frozen=True)
class Prefixes:
    """N beginnings of outputs for B recordings. `scores` never changes; the rest is about the beginnings."""

    scores: Float[Tensor, "B K V"]  # log p[t, c]; beyond a recording's end, blank for certain
    row: Int[Tensor, " N"]  # the recording of each beginning
    in_token: Float[Tensor, "N K"]  # r_n
    in_blank: Float[Tensor, "N K"]  # r_b
    last: Int[Tensor, " N"]
    psi: Float[Tensor, " N"]

    @classmethod
    def start(cls, scores: Float[Tensor, "B K V"], lengths: Int[Tensor, " B"], copies: int = 1) -> "Prefixes":
        """Return the empty prefix: blanks only."""
        beyond = torch.arange(scores.shape[1], device=scores.device) >= lengths.unsqueeze(1)
        scores = scores.masked_fill(beyond.unsqueeze(2), NEVER)
        scores[:, :, BLANK] = scores[:, :, BLANK].masked_fill(beyond, 0.0)
        row = torch.arange(len(scores), device=scores.device).repeat_interleave(copies)
        in_blank = scores[row, :, BLANK].cumsum(1)
        last = torch.full_like(row, START)
        return cls(scores, row, torch.full_like(in_blank, NEVER), in_blank, last, in_blank.new_zeros(len(row)))

    def select(self, rows: Int[Tensor, " M"]) -> "Prefixes":
        parts = (self.row, self.in_token, self.in_blank, self.last, self.psi)
        return Prefixes(self.scores, *(part[rows] for part in parts))

    def gains(self) -> Float[Tensor, "N V"]:
        """log p(g c … | g …) for every next token c: how much ψ changes. Never above 0, but for rounding."""
        either = torch.logaddexp(self.in_token, self.in_blank)
        psi = self._sum(either)
        again = self._sum(self.in_blank).gather(1, self.last.unsqueeze(1))  # </s> and <s> are never a last token
        psi = psi.scatter(1, self.last.unsqueeze(1), again)
        psi[:, END] = either[:, -1]
        return psi - self.psi.unsqueeze(1)

    def _sum(self, before: Float[Tensor, "N K"]) -> Float[Tensor, "N V"]:
        """log Σ_t e^{before[t−1]} p[t, c]"""
        before = torch.cat([self._first().unsqueeze(1), before[:, :-1]], dim=1)
        highest = before.amax(1, keepdim=True)
        size = (before - highest).exp()
        rows, counts = self.row.unique_consecutive(return_counts=True)
        if counts.amin() < counts.amax():  # beams of a recording stand together, and share its frames if they can
            rows = self.row
        total = torch.bmm(size.unflatten(0, (len(rows), -1)), self.scores[rows].exp()).flatten(0, 1)
        return (total.log() + highest).clamp(min=NEVER)

    def _first(self) -> Float[Tensor, " N"]:
        """φ before the first frame: nothing has been read, which is certain for the empty beginning only."""
        return torch.where(self.last == START, 0.0, NEVER)

    def step(self, tokens: Int[Tensor, " N"]) -> "Prefixes":
        """Return each prefix with one more token."""
        phi = torch.where(
            (tokens == self.last).unsqueeze(1), self.in_blank, torch.logaddexp(self.in_token, self.in_blank)
        )
        phi = torch.cat([self._first().unsqueeze(1), phi[:, :-1]], dim=1)
        scores = self.scores[self.row]
        said = scores.gather(2, tokens.view(-1, 1, 1).expand(-1, scores.shape[1], 1)).squeeze(2)
        blank = scores[:, :, BLANK]
        in_token = in_blank = torch.full_like(self.psi, NEVER)
        ahead = []
        for t in range(scores.shape[1]):
            in_token, in_blank = (
                torch.logaddexp(in_token, phi[:, t]) + said[:, t],
                torch.logaddexp(in_token, in_blank) + blank[:, t],
            )
            ahead.append(torch.stack([in_token, in_blank]))
        both = torch.stack(ahead, dim=2).clamp(min=NEVER)
        psi = torch.logsumexp(phi + said, dim=1)
        return Prefixes(self.scores, self.row, both[0], both[1], tokens, psi)


# Joint decoding: weighted scores of attention, CTC and a language model.
#
#     score(c | g, x) = (1 − λ) log p_attention(c | g, x) + λ (ψ(g c) − ψ(g)) + β log p_lm(c | g)
#
# Joint decoding: Hori, Watanabe and Hershey 2017, ACL, section 3.2. Shallow fusion: Gülçehre et al. 2015, section 4.1
# (arXiv:1503.03535). Each part only falls from step to step, as beam search needs it to. The sum is no probability:
# it is searched as it is (`beam(..., normalize=False)`).


@dataclass(frozen=True)
class LanguageModelFusion:
    """A language model, how much it counts, and which of its tokens is each of ours."""

    model: DecoderSteps[Any]
    start: Callable[[int], DecoderState]  # its state before the first token of so many texts
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


class JointScores:
    """A model whose every step also asks the others. Its features are the scores themselves."""

    def __init__(
        self, model: DecoderSteps[Any], *, ctc: float = 0.0, language: LanguageModelFusion | None = None
    ) -> None:
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
