"""A label comes out, or several: the encoder's memory is pooled into one vector, and a linear layer weighs the classes.

    p(c | x) = softmax(W pool(Memory(x)) + b)_c          of several labels: σ(…)_c

Labels, scores, calibration, answers and looking are the same for whatever comes in.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.encoders.class_token import by_class_token
from regard.layers.pooling import attends
from regard.look.axis import whole
from regard.look.case import Case
from regard.look.pooled_attention import pooled
from regard.look.said import Said
from regard.models.classifier import Classifier
from regard.outputs.base import LookOptions, Told
from regard.outputs.labels import classes
from regard.outputs.labels.training import LabelsTraining
from regard.outputs.result import Candidate, Labeled, Prediction


class LabelsOutput(LabelsTraining):
    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: Classifier, inputs: Sequence[Any]) -> list[Prediction]:
        """The most probable label, or all that reach the threshold; `n_best` gives the runners-up."""
        table = classes.log_probabilities(self.logits(model, inputs), self.labels)
        return [self._prediction(one, row) for one, row in zip(inputs, table, strict=True)]

    def _prediction(self, one: Any, log_probability: Float[np.ndarray, " N"]) -> Labeled:
        names, order = self.labels.names, [int(number) for number in np.argsort(-log_probability, kind="stable")]
        chance = np.exp(log_probability)
        given = order[:1]
        outputs = [self._candidate(number, log_probability) for number in order[: self.recipe.decoding.n_best]]
        if self.labels.several:
            given = [number for number in order if chance[number] >= self.recipe.decoding.threshold]
            total = float(np.where(chance >= self.recipe.decoding.threshold, log_probability, np.log1p(-chance)).sum())
            text = self.labels.writing.joined(names[number] for number in given)
            outputs = [Candidate(text, total, float(np.exp(total)))]
        labels, chances = [names[number] for number in given], {names[n]: float(chance[n]) for n in order}
        return Labeled(self.input.name(one), outputs, labels=labels, probabilities=chances)

    def _candidate(self, number: int, log_probability: Float[np.ndarray, " N"]) -> Candidate:
        return Candidate(
            self.labels.names[number], float(log_probability[number]), float(np.exp(log_probability[number]))
        )

    def given_candidates(self, model: Classifier, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        """log p(label | input) of given labels."""
        wanted = [self.labels.require(label) for label in outputs]
        table = classes.log_probabilities(self.logits(model, inputs), self.labels)
        return [self._candidate(number, row) for number, row in zip(wanted, table, strict=True)]

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Classifier, one: Any, options: LookOptions) -> list[Told]:
        """The given label, or the most probable ones; of several labels, all that are given, one after the other."""
        chance = np.exp(classes.log_probabilities(self.logits(model, [one]), self.labels)[0])
        order = [int(number) for number in np.argsort(-chance, kind="stable")]
        if options.output is not None:
            chosen = [self.labels.require(name) for name in self.labels.writing.labels(options.output)] or order[:1]
        elif self.labels.several:
            chosen = [number for number in order if chance[number] >= self.recipe.decoding.threshold] or order[:1]
        else:
            chosen = order[: self.recipe.decoding.n_best]
        names = tuple(self.labels.names[number] for number in order)
        said = Said("labels", names, tuple(float(chance[number]) for number in order))
        return [Told(number, self.labels.names[number], float(chance[number]), said) for number in chosen]

    def case(self, model: Classifier, one: Any, told: Told) -> Case:
        """The label is the one row; what it saw of the input depends on how the memory is pooled."""
        item, first = self.item_of(one), by_class_token(model.encoder, model.pooling)
        item = item if attends(model.pooling) else self.input.inside(item)
        name = told.text
        axes = {"target": whole(name), "source": self.input.axis(item)}

        def steps(source: Any) -> Tensor:
            logits = model.logits(source).float()
            chance = F.logsigmoid(logits) if self.labels.several else logits.log_softmax(-1)
            other = 0.0 if told.instead is None else chance[:, [told.instead]]
            return chance[:, [told.target]] - other

        return self.asked(model, item, steps, axes, place=pooled(first))
