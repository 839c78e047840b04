"""Predictions from the logits of a classifier. Needs no model and no torch."""

from typing import Any

import numpy as np
from jaxtyping import Float

from regard.data.labels import Labels
from regard.look.records import OutputView
from regard.tasks.result import Candidate, LabeledPrediction


def log_probabilities(logits: Float[np.ndarray, "M N"], labels: Labels) -> Float[np.ndarray, "M N"]:
    """Return log softmax of the logits; with several labels per example, log σ."""
    table = logits.astype(np.float64)
    if labels.several:
        return -np.logaddexp(0.0, -table)
    return table - np.logaddexp.reduce(table, axis=1, keepdims=True)


def candidate(number: int, log_probability: Float[np.ndarray, " N"], labels: Labels) -> Candidate:
    return Candidate(labels.names[number], float(log_probability[number]), float(np.exp(log_probability[number])))


def predict_labels(
    name: str, log_probability: Float[np.ndarray, " N"], labels: Labels, decoding: Any
) -> LabeledPrediction:
    """Return the most probable label, or all that reach `decoding.threshold`; with `decoding.n_best`, also the next
    ones.
    """
    names, order = labels.names, by_probability(log_probability)
    chance = np.exp(log_probability)
    given = order[:1]
    outputs = [candidate(number, log_probability, labels) for number in order[: decoding.n_best]]
    if labels.several:
        given = [number for number in order if chance[number] >= decoding.threshold]
        total = float(np.where(chance >= decoding.threshold, log_probability, np.log1p(-chance)).sum())
        outputs = [Candidate(labels.writing.joined(names[number] for number in given), total, float(np.exp(total)))]
    chances = {names[number]: float(chance[number]) for number in order}
    return LabeledPrediction(name, outputs, labels=[names[number] for number in given], probabilities=chances)


def looked_at(log_probability: Float[np.ndarray, " N"], labels: Labels, decoding: Any, output: str | None) -> list[int]:
    """Return the given label, or the most probable ones. With several labels per example, return all predicted ones."""
    order, chance = by_probability(log_probability), np.exp(log_probability)
    if output is not None:
        return [labels.require(name) for name in labels.writing.labels(output)] or order[:1]
    if labels.several:
        return [number for number in order if chance[number] >= decoding.threshold] or order[:1]
    return order[: decoding.n_best]


def output_view(log_probability: Float[np.ndarray, " N"], labels: Labels) -> OutputView:
    """Return every label with its probability, for a record."""
    order, chance = by_probability(log_probability), np.exp(log_probability)
    names = tuple(labels.names[number] for number in order)
    return OutputView("labels", names, tuple(float(chance[number]) for number in order))


def by_probability(log_probability: Float[np.ndarray, " N"]) -> list[int]:
    return [int(number) for number in np.argsort(-log_probability, kind="stable")]
