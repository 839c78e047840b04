"""Labels with the graph `model`."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.labels import Labels
from regard.light.description import Description
from regard.light.outputs import LightOutput
from regard.light.record import Between, record_of
from regard.light.session import Session, seen_in
from regard.look.axis import whole
from regard.look.pooled_attention import pooled
from regard.look.records import AttentionRecord
from regard.outputs.groups import grouped, mean_of_windows
from regard.outputs.labels.answers import candidate, labeled, log_probabilities, looked_at, said
from regard.outputs.result import Candidate, Prediction

LABELS = "labels.json"


class LightLabels(LightOutput):
    gives: ClassVar[str] = "a label"

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self.labels = Labels.load(about.folder / LABELS)
        self._model = Session(about.folder / "model.onnx")

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        names = [self.input.name(one) for one in inputs]
        rows = self._log_probabilities(inputs)
        return [labeled(name, row, self.labels, self.recipe.decoding) for name, row in zip(names, rows, strict=True)]

    def _log_probabilities(self, inputs: Sequence[Any]) -> np.ndarray:
        def ask(items: list[Any]) -> list[np.ndarray]:
            def work(numbers: list[int]) -> list[np.ndarray]:
                return list(self._model(self.input.collate([items[number] for number in numbers]))["logits"])

            return grouped([self.input.length(item) for item in items], self.recipe.decoding.batch_tokens, work)

        logits = mean_of_windows(self.input, inputs, ask)
        return log_probabilities(np.array(logits).reshape(len(inputs), len(self.labels)), self.labels)

    def given_candidates(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        wanted = [self.labels.require(label) for label in outputs]
        rows = self._log_probabilities(inputs)
        return [candidate(number, row, self.labels) for number, row in zip(wanted, rows, strict=True)]

    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        item = self.input.item_of(one)
        found = self._model(self.input.collate([item]), watch=True)
        (row,) = log_probabilities(found["logits"], self.labels)
        seen = {name: weights[0] for name, weights in seen_in(found).items()}
        shown, source = said(row, self.labels), self.input.axis(item)
        records = []
        for number in looked_at(row, self.labels, self.recipe.decoding, output):
            name = self.labels.names[number]
            between = Between({"target": whole(name), "source": source})
            records.append(record_of(
                seen, self.roles, between, pooled(self.says["first"]), output=name, score=float(np.exp(row[number])),
                scores=(float(row[number]),), said=shown,
            ))  # fmt: skip
        return records
