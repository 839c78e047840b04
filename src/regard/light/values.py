"""Forecasts with the graph `model`: past and known future columns → values of each step, target and quantile."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from regard.errors import CallError
from regard.inputs.series.item import SeriesItem
from regard.light.description import Description
from regard.light.outputs import LightOutput
from regard.light.record import Between, record_of
from regard.light.session import Session, seen_in
from regard.look.records import AttentionRecord
from regard.outputs.result import Candidate, Prediction
from regard.outputs.values.forecasting import UNSCORED, Forecasting, named, windows_at_once


class LightValues(LightOutput):
    gives: ClassVar[str] = "numbers"

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self._model = Session(about.folder / "model.onnx")

    @property
    def _asked(self) -> Forecasting:
        return Forecasting(self.recipe, self.input, self._values)

    def _values(self, items: Sequence[SeriesItem]) -> np.ndarray:
        groups = windows_at_once(items, self.input)
        return np.concatenate([self._model(self.input.collate(some))["values"] for some in groups])

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        return [self._asked.forecast(one) for one in inputs]

    def given_candidates(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Candidate]:
        raise CallError(UNSCORED)

    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        asked = self._asked
        looked_at, text, found = asked.line(one, output)
        item, target = looked_at
        seen = seen_in(self._model(self.input.collate([item]), watch=True))
        row = target if self.says["patches"] else 0  # the patches of each target are a separate row of the batch
        return [record_of(
            {name: weights[row] for name, weights in seen.items()}, self.roles,
            Between(asked.axes(looked_at)), output=text, scores=tuple(found.values[:, target].tolist()),
            said=found.said(target), input=named(item, self.input),
        )]  # fmt: skip
