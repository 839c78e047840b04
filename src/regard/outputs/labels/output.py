"""Classification with one label or several: the encoder output is pooled into one vector, and a linear layer scores
the classes.

    p(c | x) = softmax(W pool(Memory(x)) + b)_c          with several labels: σ(…)_c

Labels, scores, calibration, predictions and looking are the same for every input.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from regard.encoders.class_token import by_class_token
from regard.layers.pooling import attends
from regard.look.axis import whole
from regard.look.case import Case
from regard.look.pooled_attention import pooled
from regard.models.classifier import Classifier
from regard.outputs.base import Told
from regard.outputs.labels.answers import candidate, labeled, log_probabilities, looked_at, said
from regard.outputs.labels.training import LabelsTraining
from regard.outputs.looking import LookOptions
from regard.outputs.result import Candidate, Prediction


class LabelsOutput(LabelsTraining):
    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: Classifier, inputs: Sequence[Any]) -> list[Prediction]:
        """Predict the most probable label, or all that reach the threshold; with `n_best`, also the next ones."""
        names, how = [self.input.name(one) for one in inputs], self.recipe.decoding
        table = log_probabilities(self.logits(model, inputs), self.labels)
        return [labeled(name, row, self.labels, how) for name, row in zip(names, table, strict=True)]

    def given_candidates(self, model: Classifier, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        """Return log p(label | input) of given labels."""
        wanted = [self.labels.require(label) for label in outputs]
        table = log_probabilities(self.logits(model, inputs), self.labels)
        return [candidate(number, row, self.labels) for number, row in zip(wanted, table, strict=True)]

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Classifier, one: Any, options: LookOptions) -> list[Told]:
        """Return the given label, or the most probable ones. With several labels per example, return all predicted
        ones.
        """
        (row,) = log_probabilities(self.logits(model, [one]), self.labels)
        chosen, shown = looked_at(row, self.labels, self.recipe.decoding, options.output), said(row, self.labels)
        return [Told(number, self.labels.names[number], float(np.exp(row[number])), shown) for number in chosen]

    def case(self, model: Classifier, one: Any, told: Told) -> Case:
        """Return the case with the label as its one row; its columns depend on how the memory is pooled."""
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
