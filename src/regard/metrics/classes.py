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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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


def confusion(gold: Int[np.ndarray, " M"], said: Int[np.ndarray, " M"], classes: int) -> Int[np.ndarray, "N N"]:
    """Return the confusion matrix. Rows: right classes; columns: predictions. Examples of class −1 are skipped."""
    known = gold >= 0
    return np.bincount(gold[known] * classes + said[known], minlength=classes**2).reshape(classes, classes)


def one_hot(classes: Int[np.ndarray, " M"], count: int) -> Bool[np.ndarray, "M N"]:
    """Return a boolean table with one column a class; the row of an unknown class is all False."""
    return classes[:, None] == np.arange(count)


def class_scores(
    gold: Bool[np.ndarray, "M N"], said: Bool[np.ndarray, "M N"], names: Sequence[str]
) -> list[ClassScore]:
    right, count, given = ((gold & said).sum(0), gold.sum(0), said.sum(0))
    return [
        ClassScore(name, _share(tp, g), _share(tp, c), _share(2 * tp, c + g), int(c), int(g))
        for name, tp, c, g in zip(names, right, count, given, strict=True)
    ]


def macro_f1(scores: Sequence[ClassScore]) -> float:
    there = [score.f1 for score in scores if score.count or score.said]
    return float(np.mean(there)) if there else 0.0


def micro_f1(gold: Bool[np.ndarray, "M N"], said: Bool[np.ndarray, "M N"]) -> float:
    return _share(2 * (gold & said).sum(), gold.sum() + said.sum())


def exact(gold: Bool[np.ndarray, "M N"], said: Bool[np.ndarray, "M N"]) -> float:
    """Return the share of examples whose set of labels is exactly right."""
    return _share((gold == said).all(1).sum(), len(gold))


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
