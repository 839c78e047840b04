"""The best spans that two pointers leave: where an answer begins and where it ends.

    score(i, j) = s_i + e_j,   i ≤ j < i + longest           over tokens i, j of one window

Devlin et al. 2018, section 4.3 (arXiv:1810.04805): scores of different windows are comparable, since in training a
window without the answer had to prefer *no answer*. So the least of all windows' scores of it is that of the whole
document: one window that holds the answer speaks against it. A span that stands in two windows keeps its better score.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

LOWEST = -1e30  # below is what cannot be chosen


class Span(NamedTuple):
    """Tokens first ≤ t ≤ last of the document, and the score of that."""

    first: int
    last: int
    score: float


class Spans(NamedTuple):
    """The best spans, best first, and all that their probabilities need."""

    spans: list[Span]
    none: float  # score of *no answer*
    total: float  # log Σ exp over all spans


def best_spans(start: Float[Tensor, "B K1"], end: Float[Tensor, "B K1"], longest: int, count: int) -> list[Spans]:
    """Of each window. Place 0 is *no answer*; padding has the lowest number as its score, and is never among them."""
    none = (start[:, 0] + end[:, 0]).tolist()
    table = span_scores(start[:, 1:], end[:, 1:], longest)
    B, K, W = table.shape
    total = table.flatten(1).logsumexp(1).tolist()
    scores, places = table.flatten(1).topk(min(count, K * W))
    results = []
    for row in range(B):
        pairs = zip(scores[row].tolist(), places[row].tolist(), strict=True)
        spans = [Span(at // W, at // W + at % W, score) for score, at in pairs if score > LOWEST]
        results.append(Spans(spans, none[row], total[row]))
    return results


def span_scores(start: Float[Tensor, "B K"], end: Float[Tensor, "B K"], longest: int) -> Float[Tensor, "B K W"]:
    """s_i + e_{i+w} for w < W, the most tokens of an answer; −∞ where a span would leave the window."""
    K = start.shape[1]
    longest = min(longest, K)
    beyond = end.new_full((len(end), longest - 1), -torch.inf)
    start, end = (x.masked_fill(x < LOWEST, -torch.inf) for x in (start, end))
    return start.unsqueeze(2) + torch.cat([end, beyond], dim=1).unfold(1, longest, 1)


def merged(windows: Sequence[tuple[int, Spans]], count: int) -> Spans:
    """Of a whole document: windows, each with the token of the document that it begins with."""
    best: dict[tuple[int, int], Span] = {}
    for begin, window in windows:
        for span in window.spans:
            key = (span.first + begin, span.last + begin)
            if key not in best or best[key].score < span.score:
                best[key] = Span(*key, span.score)
    spans = sorted(best.values(), key=lambda span: -span.score)[:count]
    none = min((window.none for _, window in windows), default=0.0)
    total = float(np.logaddexp.reduce([window.total for _, window in windows])) if windows else float("-inf")
    return Spans(spans, none, total)
