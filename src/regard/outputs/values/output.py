"""Numeric output: the steps ahead, or one series over the time of others, all predicted in one pass.

ŷ = decoder or head (Memory of the past, columns known ahead)         in the units of the table
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.examples import Example
from regard.inputs.series.item import SeriesItem
from regard.inputs.series.windows import Windows
from regard.look.case import Case
from regard.look.records import AttentionRecord
from regard.models.forecaster import Forecaster
from regard.outputs.base import LookOptions, Told
from regard.outputs.batched import device_of
from regard.outputs.result import Picture, Prediction
from regard.outputs.values.forecasting import FEW, Forecasting, named, windows_at_once
from regard.outputs.values.looking import forecast_case
from regard.outputs.values.result import SeriesForecast, drawn
from regard.outputs.values.training import ValuesTraining

PICTURES = 2  # validation windows in the report


class ValuesOutput(ValuesTraining):
    def sample(self, model: Forecaster, example: Example) -> str:
        """Return the first target of a validation window: predicted and actual values."""
        one = self.said(model, [example.input])
        few = np.unique(np.linspace(0, len(one.times) - 1, FEW).astype(int))
        said, true = ("  ".join(f"{table[step, 0]:.4g}" for step in few) for table in (one.values, one.actual))
        return f"{one.targets[0]}, {one.times[0]} to {one.times[-1]}\n→ {said}\n= {true}"

    def pictures(self, model: Forecaster, valid: Windows) -> list[Picture]:
        """Return validation windows with their predictions."""
        return [drawn("validation windows", [self.said(model, [item]) for item in valid.some(PICTURES)])]

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: Forecaster, inputs: Sequence[Any]) -> list[Prediction]:
        """Return the steps of all series of each table (a Path, the text of a CSV, or columns by name)."""
        asked = self._asked(model)
        return [asked.forecast(one) for one in inputs]

    def said(self, model: Forecaster, items: Sequence[SeriesItem]) -> SeriesForecast:
        """Return the predictions for windows of one series, joined along time."""
        return self._asked(model).said(items)

    def _asked(self, model: Forecaster) -> Forecasting:
        @torch.inference_mode()
        def values(items: Sequence[SeriesItem]) -> np.ndarray:
            return self._values(model, items).cpu().numpy()

        return Forecasting(self.recipe, self.input, values)

    def _values(self, model: Forecaster, items: Sequence[SeriesItem]) -> Tensor:
        """Return scaled values: N T M P."""
        device, found = device_of(model), []
        for some in windows_at_once(items, self.input):
            known = torch.from_numpy(np.stack([item.known for item in some])).to(device)
            found.append(model.predict(self.input.collate(some).to(device), known))
        return torch.cat(found)

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Forecaster, one: Any, options: LookOptions) -> list[Told]:
        """Return the output to explain: of decoding.series, or the first; at decoding.at, or the end; of
        decoding.target, or the first.
        """
        looked_at, text, found = self._asked(model).line(one, options.output)
        return [Told(looked_at, text, said=found.said(looked_at.target))]

    def again(self, model: Forecaster, told: Told, one: Any) -> Told:
        """Return the prediction for the other input: the explained value is the number itself."""
        return self.tell(model, one, LookOptions())[0]

    def case(self, model: Forecaster, one: Any, told: Told) -> Case:
        axes = self._asked(model).axes(told.target)
        return forecast_case(model, self.input, told.target, axes, lambda items: self._values(model, items))

    def looked(self, record: AttentionRecord, told: Told) -> AttentionRecord:
        return replace(record, input=named(told.target.item, self.input))
