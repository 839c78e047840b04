"""Beam search: every step keeps the `size` best prefixes of each sentence.

    score(y) = log p(y | x) / penalty(|y|) + coverage(y)           |y| counts the end symbol
    penalty(n) = n^α                                               the default (α = 0: no normalization)
    penalty(n) = ((5 + n) / 6)^α                                   `gnmt`: Wu et al. 2016, eq. 14 (arXiv:1609.08144)
    coverage(y) = β Σ_s log min(Σ_t a[t, s], 1)                    the same; s over the vectors of the memory

A beginning that ends among the `size` best candidates is finished. A sentence is done when `size` hypotheses have
finished, so beam 1 is greedy search; or sooner, once nothing that is still open can enter the n-best list. That second
rule is exact: a log-probability only falls, the penalty only grows and the coverage term is at most 0, so an open
beginning of log-probability l can never score above l / penalty(longest length allowed).

Each sentence starts as one row and has `size` rows from its second step on, which stay together, so that decoders can
keep what belongs to the sentence once instead of once a beam.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import CallError
from regard.generation.coverage import CoveredState, Covering
from regard.generation.engine import (
    Choice,
    Constraints,
    DecoderSteps,
    Hypothesis,
    RunningBatch,
    Sentence,
    constrain,
    decode_all,
)
from regard.kernels import inference
from regard.special_tokens import END

# Fast top-k of logits, and the log-sum-exp normalizer.
#
# With eight thousand words and five beams, plain `topk` and `logsumexp` would take a fifth of a small Transformer's
# step.
#
#     top        The maximum of each group of neighboring words is cheap. The n best words are all in the n groups
#     with
#                the best maxima: any other group has n words of other groups above all of its own. So look into n
#                only.
#     normalizer log Σ exp a = max a − log max softmax(a). On a CPU, softmax is one kernel that passes over a row
#     while
#                it is in the cache; a sum of exponentials by operations of their own takes half as long again.

GROUP = 64  # words: four vectors of a processor that has sixteen numbers in each
BLOCK_ELEMENTS = 2**19  # whose softmax is taken at once: a table that is as large as the logits is never made


class Top(NamedTuple):
    value: Float[Tensor, "R n"]  # best first
    row: Int[Tensor, "R n"]  # which of the W
    token: Int[Tensor, "R n"]  # which of the V


def top(logits: Float[Tensor, "R W V"], offset: Float[Tensor, "R W"], count: int) -> Top:
    """The `count` best of offset[w] + logits[w, v] for each of R (fewer, if there are fewer), found exactly."""
    W, V = logits.shape[1:]
    if inference.available(logits) and min(count, V) <= inference.most_best():
        best, token = inference.best(logits.flatten(0, 1), min(count, V))
        value = (best.view(-1, W, best.shape[1]).to(offset.dtype) + offset.unsqueeze(2)).flatten(1)
        value, place = value.topk(min(count, W * V), dim=1)
        return Top(value, place // best.shape[1], token.view(len(value), -1).gather(1, place))
    whole = V // GROUP
    best = logits[:, :, : whole * GROUP].unflatten(2, (whole, GROUP)).amax(3)
    if whole * GROUP < V:
        best = torch.cat([best, logits[:, :, whole * GROUP :].amax(2, keepdim=True)], dim=2)
    groups = best.shape[2]
    place = (best.to(offset.dtype) + offset.unsqueeze(2)).flatten(1).topk(min(count, W * groups), dim=1).indices
    row, group = place // groups, place % groups
    token = group.unsqueeze(2) * GROUP + torch.arange(GROUP, device=logits.device)  # all words of those groups
    beyond = token >= V
    token = token.clamp(max=V - 1)
    value = logits.flatten(1).gather(1, (row.unsqueeze(2) * V + token).flatten(1)).view(token.shape).to(offset.dtype)
    value = (value + offset.gather(1, row).unsqueeze(2)).masked_fill(beyond, -torch.inf).flatten(1)
    value, place = value.topk(min(count, W * V), dim=1)
    return Top(value, row.gather(1, place // GROUP), token.flatten(1).gather(1, place))


def most_probable(logits: Float[Tensor, "N V"]) -> tuple[Float[Tensor, " N"], Int[Tensor, " N"]]:
    """The best one of each row: its number, and which it is."""
    if inference.available(logits):
        value, token = inference.best(logits, 1)
        return value.squeeze(1), token.squeeze(1)
    found = top(logits.unsqueeze(1), logits.new_zeros(len(logits), 1), 1)
    return found.value.squeeze(1), found.token.squeeze(1)


def normalizer(logits: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
    """log Σ_v exp(logits_v)"""
    if inference.available(logits):
        return inference.normalizer(logits)
    if logits.device.type != "cpu":
        return logits.logsumexp(1)
    rows = max(1, BLOCK_ELEMENTS // logits.shape[1])
    largest = [F.softmax(block, dim=1, dtype=torch.float32).amax(1) for block in logits.split(rows)]
    return logits.amax(1).float() - torch.cat(largest).log_()


@dataclass(frozen=True)
class LengthPenalty:
    """The divisor of a log-probability, so that long outputs are not penalized for their length."""

    alpha: float = 1.0
    gnmt: bool = False

    def __post_init__(self) -> None:
        if self.alpha < 0.0:
            raise CallError(f"length penalty alpha={self.alpha} must not be below 0")

    def __call__(self, length: int) -> float:
        return ((5 + length) / 6) ** self.alpha if self.gnmt else length**self.alpha


@dataclass(frozen=True)
class Beam:
    """The `n_best` best hypotheses of each sentence (fewer, where fewer exist), best first.

    coverage    β; above 0, states are `CoveredState`
    normalize   False takes a model's logits for scores of at most 0 that are added up as they are
    """

    size: int = 5
    n_best: int = 1
    penalty: LengthPenalty = LengthPenalty()
    coverage: float = 0.0
    normalize: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.n_best <= self.size:
            raise CallError(f"n_best={self.n_best} must be between 1 and the beam's size={self.size}")

    def choose(self, logits: Float[Tensor, "N V"], batch: RunningBatch) -> Choice:
        sentences, width = batch.sentences, batch.scores.shape[1]
        offset = batch.scores - normalizer(logits).view(-1, width).float() if self.normalize else batch.scores
        constrain(logits, [(sentence.constraints, sentence.step) for sentence in sentences])
        # 2 · size candidates a sentence: even if the `size` best of them end, `size` are left to go on
        total, origin, token = top(logits.view(len(sentences), width, -1), offset, 2 * self.size)
        ends = token == END
        for number, rank in ends[:, : self.size].nonzero().tolist():
            if not sentences[number].done and total[number, rank] > -torch.inf:
                beam = int(origin[number, rank])
                self._finish(sentences[number], beam, float(total[number, rank]), number * width + beam, batch)
        scores, kept = total.masked_fill(ends, -torch.inf).topk(min(self.size, total.shape[1]), dim=1)
        origin, token = origin.gather(1, kept), token.gather(1, kept)
        if missing := self.size - scores.shape[1]:  # a vocabulary that is smaller than the beam
            scores = F.pad(scores, (0, missing), value=-torch.inf)
            origin, token = F.pad(origin, (0, missing)), F.pad(token, (0, missing))
        for sentence, best, origins, tokens in zip(
            sentences, scores[:, 0].tolist(), origin.tolist(), token.tolist(), strict=True
        ):
            if not sentence.done:
                sentence.origins.append(origins)
                sentence.tokens.append(tokens)
                self._end(sentence, best)
        return Choice(token, scores, origin)

    def _finish(self, sentence: Sentence, beam: int, log_probability: float, row: int, batch: RunningBatch) -> None:
        """A beam of the sentence has ended with this step."""
        score = log_probability / self.penalty(sentence.step + 1)
        if self.coverage > 0.0:
            score += self.coverage * batch.state.coverage(row)
        sentence.found.append(Hypothesis(sentence.said(beam), score, log_probability))
        sentence.found.sort(key=lambda found: -found.score)

    def _end(self, sentence: Sentence, best_open: float) -> None:
        """Is the list final, when no open beginning has a log-probability above `best_open`?"""
        found, bound = sentence.found, best_open / self.penalty(sentence.constraints.max_length + 1)
        sentence.done = (
            best_open == -torch.inf
            or len(found) >= self.size
            or (len(found) >= self.n_best and found[self.n_best - 1].score >= bound)
        )
        if sentence.done:
            sentence.found = found[: self.n_best]


def beam(
    model: DecoderSteps[Any], state: Any, constraints: Constraints | Sequence[Constraints], **how: Any
) -> list[list[Hypothesis]]:
    """What `Beam(**how)` finds for sentences that begin together."""
    search = Beam(**how)
    if search.coverage > 0.0:
        return decode_all(Covering(model), search, CoveredState(state), constraints)
    return decode_all(model, search, state, constraints)
