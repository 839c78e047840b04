"""Exact match and F1 of answers, as SQuAD defines them.

    normalize    lower case; no punctuation (ASCII); no a, an, the; single spaces
    exact match  1 if the normalized texts are equal
    F1           of the words that both have (as often as both have them); the best over all right answers

Rajpurkar et al. 2016, section 6.1 (arXiv:1606.05250); the scripts evaluate-v1.1.py and evaluate-v2.0.py. The two differ
where nothing is left of a text. v1.1: an empty text shares no word with anything, so F1 is 0, also where exact match is
1. v2.0: right answers of which nothing is left are dropped; a question that has none left wants the empty answer; and
if a text is empty, F1 is 1 or 0 as exact match is.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class AnswerScore(NamedTuple):
    """The scores of one question, 0 to 1, or the mean of several."""

    exact: float
    f1: float


def normalize(text: str) -> str:
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def answer_score(said: str, right: Sequence[str], *, no_answer: bool = False) -> AnswerScore:
    """Return the best of each score over all right answers. `no_answer`: by the rules of v2.0; () wants ""."""
    if no_answer:
        right = [text for text in right if normalize(text)] or [""]
    return AnswerScore(
        float(max(normalize(said) == normalize(text) for text in right)),
        max(_f1(normalize(said).split(), normalize(text).split(), no_answer) for text in right),
    )


def _f1(said: list[str], right: list[str], no_answer: bool) -> float:
    if no_answer and not (said and right):
        return float(said == right)
    shared = (Counter(said) & Counter(right)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(said), shared / len(right)
    return 2 * precision * recall / (precision + recall)


def mean_score(scores: Sequence[AnswerScore]) -> AnswerScore:
    """Return the mean in per cent, as SQuAD's scripts print it."""
    count = max(1, len(scores))
    return AnswerScore(100 * sum(s.exact for s in scores) / count, 100 * sum(s.f1 for s in scores) / count)


class Threshold(NamedTuple):
    """The threshold for *no answer*, which is predicted if its log-odds are above `value`; F1 is then `f1`."""

    value: float
    f1: float


def best_threshold(odds: Sequence[float], spoken: Sequence[float], silent: Sequence[float]) -> Threshold:
    """Return the threshold of the best mean F1, computed as in evaluate-v2.0.py.

    `odds`: of *no answer* against the best span, for each question; `spoken`: its F1 with the span; `silent`: its
    F1 if no answer is predicted.
    """
    # From no answers to all answers, in the order of the odds. Questions of equal odds change together.
    order = sorted(range(len(odds)), key=lambda i: odds[i])
    total = sum(silent)
    best, value = total, (odds[order[0]] - 1.0 if order else 0.0)
    for place, i in enumerate(order):
        total += spoken[i] - silent[i]
        last = place + 1 == len(order) or odds[order[place + 1]] > odds[i]
        if last and total > best:
            best, value = total, odds[i]
    return Threshold(value, 100 * best / max(1, len(odds)))
