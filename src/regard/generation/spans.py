"""The best answer spans from the scores of their first and last token.

    score(i, j) = s_i + e_j,   i ≤ j < i + longest           over tokens i, j of one window

Devlin et al. 2018, section 4.3 (arXiv:1810.04805): scores of different windows are comparable, since in training a
window without the answer had to prefer *no answer*. So the least of all windows' scores of it is that of the whole
document: one window with the answer is evidence against it. A span in two windows keeps its better score.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.lib.stride_tricks import sliding_window_view

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


def best_spans(
    start: Float[np.ndarray, "B K1"], end: Float[np.ndarray, "B K1"], longest: int, count: int
) -> list[Spans]:
    """Of each window. Place 0 is *no answer*; padding has the lowest number as its score, and is never among them."""
    none = (start[:, 0] + end[:, 0]).tolist()
    table = span_scores(start[:, 1:], end[:, 1:], longest)
    B, K, W = table.shape
    flat = table.reshape(B, K * W)
    order = np.argsort(-flat, axis=1, kind="stable")[:, :count]
    results = []
    for row in range(B):
        pairs = zip(flat[row, order[row]].tolist(), order[row].tolist(), strict=True)
        spans = [Span(at // W, at // W + at % W, score) for score, at in pairs if score > LOWEST]
        results.append(Spans(spans, none[row], float(np.logaddexp.reduce(flat[row]))))
    return results


def span_scores(
    start: Float[np.ndarray, "B K"], end: Float[np.ndarray, "B K"], longest: int
) -> Float[np.ndarray, "B K W"]:
    """s_i + e_{i+w} for w < W, the most tokens of an answer; −∞ where a span would leave the window."""
    longest = min(longest, start.shape[1])
    start, end = (np.where(x < LOWEST, -np.inf, x) for x in (start, end))
    beyond = np.pad(end, ((0, 0), (0, longest - 1)), constant_values=-np.inf)
    return start[:, :, None] + sliding_window_view(beyond, longest, axis=1)


def merge_windows(windows: Sequence[tuple[int, Spans]], count: int) -> Spans:
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
