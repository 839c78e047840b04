"""Predictions, scores and figures from the logits of a classifier, for any input."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from regard.data.labels import UNKNOWN, Labels
from regard.layers.class_loss import class_loss
from regard.look.svg import heat_map, reliability_diagram
from regard.metrics.classes import Bin, class_scores, confusion, exact, macro_f1, micro_f1, one_hot, reliability
from regard.outputs.labels.answers import log_probabilities
from regard.outputs.result import Picture, Scores, Tally

Rows = Sequence[Sequence[int]]  # the classes of each example, −1 for those not in the training data
PERCENT = ("accuracy", "macro_f1", "micro_f1", "calibration_error")
CONFUSION = "confusion (rows: right, columns: predicted)"
WIDEST = 40  # maximum classes of a drawn confusion matrix


def probabilities(logits: Float[np.ndarray, "M N"], labels: Labels) -> Float[np.ndarray, "M N"]:
    return np.exp(log_probabilities(logits, labels))


def answers(logits: Float[np.ndarray, "M N"], labels: Labels, threshold: float) -> Bool[np.ndarray, "M N"]:
    """Return which classes are predicted: the most probable one, or all that reach the threshold."""
    if labels.several:
        return probabilities(logits, labels) >= threshold
    return one_hot(logits.argmax(1), len(labels))


def table_of(rows: Rows, labels: Labels) -> Bool[np.ndarray, "M N"]:
    """Return which classes are correct; a label not in the training data matches none of them."""
    table = np.zeros((len(rows), len(labels)), bool)
    for number, row in enumerate(rows):
        table[number, [one for one in row if one != UNKNOWN]] = True
    return table


def quick(logits: Float[np.ndarray, "M N"], rows: Rows, labels: Labels, threshold: float) -> dict[str, float]:
    """Return the scores that are logged in training; the loss has no class weights and no smoothing."""
    said, gold = answers(logits, labels, threshold), table_of(rows, labels)
    loss = class_loss(torch.from_numpy(logits), torch.from_numpy(labels.target(rows)))
    found = {"loss": float(loss.total) / max(1, int(loss.count))}
    found |= {"accuracy": _accuracy(rows, gold, said), "macro_f1": macro_f1(class_scores(gold, said, labels.names))}
    return {**found, "micro_f1": micro_f1(gold, said)} if labels.several else found


def scores(logits: Float[np.ndarray, "M N"], rows: Rows, labels: Labels, threshold: float) -> Scores:
    """Return all scores that `evaluate` reports."""
    said, gold = answers(logits, labels, threshold), table_of(rows, labels)
    error, bins = _calibration(logits, rows, labels)
    values = {**quick(logits, rows, labels, threshold), "calibration_error": error, "examples": float(len(rows))}
    details = {
        "by class": [score.as_row() for score in class_scores(gold, said, labels.names)],
        "calibration, in percent": [one.as_row() for one in bins],
    }
    if not labels.several:
        details[CONFUSION] = confusion_rows(confusion(_first(rows), logits.argmax(1), len(labels)), labels.names)
    return Scores(values, {}, details, pictures(logits, rows, labels, "Test data"), percent=PERCENT)


def tally(said: Bool[np.ndarray, "M N"], rows: Rows, labels: Labels, metric: str) -> Tally:
    """Return what each example adds to a score of `quick`."""
    gold = table_of(rows, labels)
    if metric == "macro_f1":

        def value(table: Any) -> float:
            right, given = np.split(table.astype(bool), 2, axis=1)
            return macro_f1(class_scores(right, given, labels.names))

        return Tally(np.concatenate([gold, said], axis=1), value)
    if metric == "micro_f1":
        return Tally.of_shares(np.stack([2 * (gold & said).sum(1), gold.sum(1) + said.sum(1)], 1), percent=True)
    known = np.array([UNKNOWN not in row for row in rows], bool)
    return Tally.of_hits(known & (gold == said).all(1))


def pictures(logits: Float[np.ndarray, "M N"], rows: Rows, labels: Labels, data: str) -> list[Picture]:
    """Return the confusion matrix (one label per example) and the reliability of probabilities; `data` names the
    data.
    """
    found = []
    if not labels.several:
        matrix = confusion(_first(rows), logits.argmax(1), len(labels))
        found += confusion_picture(matrix, labels.names, f"{data}. Rows: the right class")
    error, bins = _calibration(logits, rows, labels)
    note = f"{data}. Bars: how often right; line: how sure. Expected calibration error: {error:.1f} percent."
    return [*found, Picture("Calibration", reliability_diagram(bins), note)]


def confusion_rows(matrix: Int[np.ndarray, "N N"], names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"": name, **dict(zip(names, row.tolist(), strict=True))} for name, row in zip(names, matrix, strict=True)]


def confusion_picture(matrix: Int[np.ndarray, "N N"], names: Sequence[str], about: str) -> list[Picture]:
    """Return the confusion matrix as a figure if it is not too wide; `about` names the data and the rows."""
    if len(names) > WIDEST:
        return []
    counts = matrix.sum(1)
    rights = [f"{name} ({count})" for name, count in zip(names, counts, strict=True)]
    note = f"{about} (and how many there are); columns: the predicted class."
    share = matrix / np.maximum(1, counts[:, None])
    return [Picture("Confusion", heat_map(share, rights, names, "Confusion"), note)]


def _accuracy(rows: Rows, gold: Bool[np.ndarray, "M N"], said: Bool[np.ndarray, "M N"]) -> float:
    """Return the accuracy; examples with an unknown label count as wrong."""
    known = np.array([UNKNOWN not in row for row in rows], bool)
    return exact(gold[known], said[known]) * float(known.mean()) if known.any() else 0.0


def _first(rows: Rows) -> Int[np.ndarray, " M"]:
    return np.array([row[0] for row in rows], np.int64)


def _calibration(logits: Float[np.ndarray, "M N"], rows: Rows, labels: Labels) -> tuple[float, list[Bin]]:
    table, gold = probabilities(logits, labels), table_of(rows, labels)
    if labels.several:
        return reliability(table.reshape(-1), gold.reshape(-1))
    best = table.argmax(1)
    every = np.arange(len(table))
    return reliability(table[every, best], gold[every, best])
