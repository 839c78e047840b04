"""Beam search over arrays: same equations and stopping rule as `regard.decoding.beam`.

score(y) = log p(y | x) / |y|^α + coverage(y)      |y| counts the end symbol
"""

import math
from typing import Any

import numpy as np

from regard.light.rules import Hypothesis, Rules, normalizer
from regard.special_tokens import END, START
from regard.work import before_step


def beam(
    steps: Any, state: Any, rules: Rules, *, size: int, n_best: int, alpha: float, coverage: float = 0.0,
    normalize: bool = True,
) -> list[list[Hypothesis]]:  # fmt: skip
    """Return the `n_best` best hypotheses of each sentence (fewer if fewer exist), best first.

    steps       `Steps`, or a wrapper (`light/helped.py`), with its state
    coverage    β; above 0, states are `CoveredState`
    normalize   False treats logits as scores of at most 0, which are added without normalization
    """
    width = 1
    finished: list[list[Hypothesis]] = [[] for _ in range(state.rows)]
    sentences = np.arange(state.rows)
    open_score = np.zeros((state.rows, 1), np.float32)  # log-probabilities, sentences × width
    history = np.full((state.rows, 1, 1), START, np.int64)
    longest = (rules.max_length + 1) ** alpha
    for step in range(rules.max_length + 1):
        before_step(len(sentences) * width)
        logits, state = steps.step(history[:, :, -1].reshape(-1), state)
        offset = open_score - normalizer(logits).reshape(-1, width) if normalize else open_score
        rules.apply(logits, step)
        # 2 · size candidates a sentence: even if the `size` best of them end, `size` remain open
        total, origin, token = _top(logits.reshape(len(sentences), width, -1) + offset[:, :, None], 2 * size)

        ends = token == END
        for number, rank in zip(*np.nonzero(ends[:, :size] & (total[:, :size] > -np.inf)), strict=True):
            log_probability = float(total[number, rank])
            tokens = history[number, origin[number, rank], 1:].tolist()
            found, score = finished[sentences[number]], log_probability / (step + 1) ** alpha
            if coverage > 0.0:
                score += coverage * state.coverage(number * width + origin[number, rank])
            found.append(Hypothesis(tokens, score, log_probability))
            found.sort(key=lambda one: -one.score)

        total = np.where(ends, -np.inf, total)
        kept = np.argsort(-total, axis=1, kind="stable")[:, :size]
        open_score, origin, token = (np.take_along_axis(one, kept, axis=1) for one in (total, origin, token))
        going = np.array([
            not _done(finished[sentence], size, n_best, float(best) / longest)
            for sentence, best in zip(sentences, open_score[:, 0], strict=True)
        ])  # fmt: skip
        if not going.any():
            break
        staying = np.flatnonzero(going)
        sentences, open_score, origin, token = sentences[going], open_score[going], origin[going], token[going]
        rows = (staying[:, None] * width + origin).reshape(-1)
        history = history.reshape(-1, history.shape[-1])[rows].reshape(*origin.shape, -1)
        history = np.concatenate([history, token[:, :, None]], axis=2)
        state, width = state.select(rows), origin.shape[1]
    return [found[:n_best] for found in finished]


def _done(finished: list[Hypothesis], size: int, wanted: int, best_open: float) -> bool:
    """Whether the list is final: no open prefix can score above `best_open`."""
    if best_open == -math.inf or len(finished) >= size:
        return True
    return len(finished) >= wanted and finished[wanted - 1].score >= best_open


def _top(scores: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the `count` best of each R, best first: scores, indices in W, indices in V (R W V input)."""
    flat = scores.reshape(len(scores), -1)
    count = min(count, flat.shape[1])
    place = np.argpartition(-flat, count - 1, axis=1)[:, :count]
    best = np.take_along_axis(flat, place, axis=1)
    order = np.argsort(-best, axis=1, kind="stable")
    place, best = np.take_along_axis(place, order, axis=1), np.take_along_axis(best, order, axis=1)
    return best, place // scores.shape[2], place % scores.shape[2]
