"""Scores of predicted classes against the right ones. All but the loss in per cent.

    accuracy            right / all;   of several labels: examples whose labels are all right
    precision, recall   tp / (tp + fp),   tp / (tp + fn),   of each class;   F₁ = 2 tp / (2 tp + fp + fn)
    macro F₁            the mean over classes, so that a rare class counts as much as a frequent one
    micro F₁            of all decisions together; with one label each it is the accuracy
    calibration error   Σ_b n_b/n |right_b − p̄_b|  over ten bins of probability: Guo et al. 2017, eq. 3 to 5
                        (arXiv:1706.04599). Of several labels every decision counts, by the probability of yes

Precision and recall of absent classes (0 over 0) are 0, as in scikit-learn with zero_division=0, but a class
that neither the data nor the answers have is left out of the macro mean.
"""

import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

BINS = 10


@dataclass(frozen=True)
class ClassScore:
    """Precision, recall and F1 of one class."""

    name: str
    precision: float
    recall: float
    f1: float
    count: int
    said: int

    def as_row(self) -> dict[str, Any]:
        return {
            "class": self.name, "precision": self.precision, "recall": self.recall, "f1": self.f1,
            "examples": self.count, "predicted": self.said,
        }  # fmt: skip


@dataclass(frozen=True)
class Bin:
    """The decisions of one bin of probability: mean probability, and share that is right."""

    low: float
    high: float
    confidence: float
    right: float
    count: int

    def as_row(self) -> dict[str, Any]:
        return {
            "probability": f"{self.low:.0%} to {self.high:.0%}", "decisions": self.count,
            "mean probability": self.confidence, "right": self.right,
        }  # fmt: skip


def confusion(gold: Int[np.ndarray, " M"], predicted: Int[np.ndarray, " M"], classes: int) -> Int[np.ndarray, "N N"]:
    """Return the confusion matrix. Rows: right classes; columns: predictions. Examples of class −1 are skipped."""
    known = gold >= 0
    return np.bincount(gold[known] * classes + predicted[known], minlength=classes**2).reshape(classes, classes)


def one_hot(classes: Int[np.ndarray, " M"], count: int) -> Bool[np.ndarray, "M N"]:
    """Return a boolean table with one column a class; the row of an unknown class is all False."""
    return classes[:, None] == np.arange(count)


def class_scores(
    gold: Bool[np.ndarray, "M N"], predicted: Bool[np.ndarray, "M N"], names: Sequence[str]
) -> list[ClassScore]:
    right, count, given = ((gold & predicted).sum(0), gold.sum(0), predicted.sum(0))
    return [
        ClassScore(name, _share(tp, g), _share(tp, c), _share(2 * tp, c + g), int(c), int(g))
        for name, tp, c, g in zip(names, right, count, given, strict=True)
    ]


def macro_f1(scores: Sequence[ClassScore]) -> float:
    there = [score.f1 for score in scores if score.count or score.said]
    return float(np.mean(there)) if there else 0.0


def micro_f1(gold: Bool[np.ndarray, "M N"], predicted: Bool[np.ndarray, "M N"]) -> float:
    return _share(2 * (gold & predicted).sum(), gold.sum() + predicted.sum())


def exact(gold: Bool[np.ndarray, "M N"], predicted: Bool[np.ndarray, "M N"]) -> float:
    """Return the share of examples whose set of labels is exactly right."""
    return _share((gold == predicted).all(1).sum(), len(gold))


def reliability(
    probability: Float[np.ndarray, " M"], right: Bool[np.ndarray, " M"], bins: int = BINS
) -> tuple[float, list[Bin]]:
    """Return the expected calibration error, and the bins that are not empty."""
    place = np.clip(np.ceil(probability * bins).astype(int) - 1, 0, bins - 1)  # (0, 0.1], (0.1, 0.2], ...
    found = []
    for number in range(bins):
        inside = place == number
        if inside.any():
            sure, true = float(probability[inside].mean()), float(right[inside].mean())
            found.append(Bin(number / bins, (number + 1) / bins, 100 * sure, 100 * true, int(inside.sum())))
    total = sum(one.count for one in found)
    return sum(one.count * abs(one.right - one.confidence) for one in found) / max(1, total), found


def _share(part: Any, whole: Any) -> float:
    return 100 * float(part) / float(whole) if whole else 0.0


# Scores of tagged spans: a span is right if its boundaries and label are exact.
#
#     BIO      B-PER I-PER O              B begins, I continues; an I without a preceding tag of its label begins, too
#     BIOES    B-PER E-PER S-LOC O        E ends, S is a span of one word
#
#     precision = right / predicted    recall = right / gold    F₁ = 2 right / (predicted + gold)
#
# Counted as conlleval does (Tjong Kim Sang and Buchholz 2000, section 4, aclanthology.org/W00-0726), which reads both
# schemes, and accepts a wrong first tag. All in per cent.

BEGINS, GOES_ON = ("B", "S"), ("I", "E")


class TagSpan(NamedTuple):
    label: str
    start: int
    end: int  # the word after the last one


def marks_spans(tags: Sequence[str]) -> bool:
    """Whether these tags are of one of the schemes: O, and prefixes with a label, with at least one first tag."""
    parts = [tag.partition("-") for tag in tags if tag != "O"]
    fits = all(prefix in BEGINS + GOES_ON and dash and label for prefix, dash, label in parts)
    return bool(parts) and fits and any(prefix in BEGINS for prefix, _, _ in parts)


def spans(tags: Sequence[str]) -> list[TagSpan]:
    found: list[TagSpan] = []
    start, label, ended = 0, "", True
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, mine = tag.partition("-")
        on = prefix in GOES_ON and label == mine and not ended
        if label and not on:
            found.append(TagSpan(label, start, place))
        if not on:
            start, label = place, mine
        ended = prefix in ("E", "S", "O")
    return found


def violations(tags: Sequence[str]) -> Iterator[int]:
    """Yield the positions of tags that continue a span that did not begin."""
    before = "O"
    for place, tag in enumerate(tags):
        prefix, _, label = tag.partition("-")
        open_ = before.partition("-")[0] in ("B", "I") and before.partition("-")[2] == label
        if prefix in GOES_ON and not open_:
            yield place
        before = tag


def span_scores(right: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Score all spans (`label` is empty), and each label; `right` and `predicted` are the tags of each text."""
    there, given, hits = Counter[str](), Counter[str](), Counter[str]()
    for one, other in zip(right, predicted, strict=True):
        mine, its = set(spans(one)), set(spans(other))
        for counter, some in ((there, mine), (given, its), (hits, mine & its)):
            counter.update(span.label for span in some)
            counter[""] += len(some)
    return [
        {
            "label": label,
            "precision": _spans_share(hits[label], given[label]),
            "recall": _spans_share(hits[label], there[label]),
            "f1": _spans_share(2 * hits[label], given[label] + there[label]),
            "spans": there[label],
            "said": given[label],
        }
        for label in sorted({"", *there, *given})
    ]


def _spans_share(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


# Exact match and F1 of answers, as SQuAD defines them.
#
#     normalize    lower case; no punctuation (ASCII); no a, an, the; single spaces
#     exact match  1 if the normalized texts are equal
#     F1           of the words that both have (as often as both have them); the best over all right answers
#
# Rajpurkar et al. 2016, section 6.1 (arXiv:1606.05250); the scripts evaluate-v1.1.py and evaluate-v2.0.py. The two
# differ where nothing is left of a text. v1.1: an empty text shares no word with anything, so F1 is 0, also where
# exact match is 1. v2.0: right answers of which nothing is left are dropped; a question that has none left wants the
# empty answer; and if a text is empty, F1 is 1 or 0 as exact match is.

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


def _f1(predicted: list[str], right: list[str], no_answer: bool) -> float:
    if no_answer and not (predicted and right):
        return float(predicted == right)
    shared = (Counter(predicted) & Counter(right)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(right)
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
