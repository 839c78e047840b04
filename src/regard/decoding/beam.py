"""Beam search: at every step the `size` best beginnings of each sentence go on.

    score(y) = log p(y | x) / penalty(|y|) + coverage(y)           |y| counts the end symbol
    penalty(n) = n^α                                               the default (α = 0: no normalization)
    penalty(n) = ((5 + n) / 6)^α                                   `gnmt`: Wu et al. 2016, eq. 14 (arXiv:1609.08144)
    coverage(y) = β Σ_s log min(Σ_t a[t, s], 1)                    the same; s over the vectors of the memory

A beginning that ends among the `size` best candidates is finished. A sentence is done when `size` hypotheses have
finished, so beam 1 is greedy search; or sooner, once nothing that is still open can enter the n-best list. That second
rule is exact: a log-probability only falls, the penalty only grows and the coverage term is at most 0, so an open
beginning of log-probability l can never score above l / penalty(longest length allowed).

Sentences that are done leave the batch with all their beams. Each sentence starts as one row and grows to `size`
rows, which stay together, so that decoders can keep what belongs to the sentence once instead of once a beam.
"""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from regard.decoding.constraints import Constraints
from regard.decoding.protocol import Hypothesis, S, Steps
from regard.decoding.top import normalizer, top
from regard.errors import CallError
from regard.special_tokens import END, START
from regard.work import before_step

LEAVING_SHARE = 0.125  # sentences that are done are dropped in groups of this share of the batch


@dataclass(frozen=True)
class LengthPenalty:
    """What a log-probability is divided by, so that long outputs are not punished for being long."""

    alpha: float = 1.0
    gnmt: bool = False

    def __post_init__(self) -> None:
        if self.alpha < 0.0:
            raise CallError(f"length penalty alpha={self.alpha} must not be below 0")

    def __call__(self, length: int) -> float:
        return ((5 + length) / 6) ** self.alpha if self.gnmt else length**self.alpha


@dataclass
class _Sentence:
    """The finished hypotheses of one sentence, best first."""

    size: int
    wanted: int
    finished: list[Hypothesis] = field(default_factory=list)

    def done(self, best_open: float) -> bool:
        """Is the list final, when no open beginning can score above `best_open`?"""
        if best_open == -math.inf or len(self.finished) >= self.size:
            return True
        return len(self.finished) >= self.wanted and self.finished[self.wanted - 1].score >= best_open

    def add(self, hypothesis: Hypothesis) -> None:
        self.finished.append(hypothesis)
        self.finished.sort(key=lambda found: -found.score)


@torch.inference_mode()
def beam(
    model: Steps[S],
    state: S,
    constraints: Constraints,
    *,
    size: int = 5,
    n_best: int = 1,
    penalty: LengthPenalty = LengthPenalty(),  # noqa: B008 (frozen)
    coverage: float = 0.0,
    normalize: bool = True,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses of each sentence (fewer, where fewer exist), best first.

    normalize   False takes a model's logits for scores of at most 0 that are added up as they are
    """
    if not 1 <= n_best <= size:
        raise CallError(f"n_best={n_best} must be between 1 and the beam's size={size}")
    device, width = state.device, 1
    results = [_Sentence(size, n_best) for _ in range(state.rows)]
    sentences = torch.arange(state.rows, device=device)
    open_score = torch.zeros(state.rows, 1, device=device)  # log-probabilities, sentences × width
    history = torch.full((state.rows, 1, 1), START, device=device)
    covered: Tensor | None = None
    done = [False] * state.rows
    for step in range(constraints.longest + 1):
        before_step(history.shape[0] * width)
        features, state = model.step(history[:, :, -1].flatten(), state)
        logits = model.logits(features)
        offset = open_score - normalizer(logits).view(-1, width).float() if normalize else open_score
        constraints.apply(logits, step, sentences.repeat_interleave(width))
        # 2 · size candidates a sentence: even if the `size` best of them end, `size` are left to go on
        total, origin, token = top(logits.view(len(sentences), width, -1), offset, 2 * size)
        if coverage > 0.0:
            looked = _weights(state)
            covered = looked if covered is None else covered + looked

        ends = token == END
        for number, rank in ends[:, :size].nonzero().tolist():
            if done[number] or total[number, rank] == -torch.inf:
                continue
            log_probability = float(total[number, rank])
            score = log_probability / penalty(step + 1)
            if covered is not None:
                row = number * width + int(origin[number, rank])
                score += coverage * _coverage(covered[row])
            tokens = history[number, origin[number, rank], 1:].tolist()
            results[int(sentences[number])].add(Hypothesis(tokens, score, log_probability))

        total = total.masked_fill(ends, -torch.inf)
        open_score, kept = total.topk(min(size, total.shape[1]), dim=1)
        origin, token = origin.gather(1, kept), token.gather(1, kept)
        names = sentences.tolist()
        done = [
            results[name].done(best_open / penalty(constraints.limit(name) + 1))
            for name, best_open in zip(names, open_score[:, 0].tolist(), strict=True)
        ]
        if all(done):
            break
        staying = torch.arange(len(names), device=device)
        if sum(done) >= LEAVING_SHARE * len(done):
            staying = torch.tensor([number for number, is_done in enumerate(done) if not is_done], device=device)
            sentences, open_score, done = sentences[staying], open_score[staying], [False] * len(staying)
            origin, token = origin[staying], token[staying]
        rows = (staying.unsqueeze(1) * width + origin).flatten()
        history = torch.cat([history.flatten(0, 1)[rows].view(*origin.shape, -1), token.unsqueeze(2)], dim=2)
        state, width = state.select(rows), origin.shape[1]
        covered = None if covered is None else covered[rows]
    return [result.finished[:n_best] for result in results]


def _weights(state: object) -> Float[Tensor, "N K"]:
    weights = getattr(state, "weights", None)
    if weights is None:
        raise CallError("the coverage penalty needs a decoder that attends, started with watch=True")
    return weights


def _coverage(covered: Float[Tensor, " K"]) -> float:
    """Σ_s log min(covered_s, 1). A vector that no step may look at (padding) has weight exactly 0, and is left out."""
    return float(covered[covered > 0].clamp(max=1.0).log().sum())
