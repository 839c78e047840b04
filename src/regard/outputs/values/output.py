"""Values come out: numbers of the steps ahead, or of one series over the time of others, said all at once.

ŷ = decoder or head (Memory of the past, what is known ahead)         in the units of the table
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.data.examples import Example
from regard.errors import CallError
from regard.inputs.series.item import SeriesItem
from regard.inputs.series.times import labels
from regard.inputs.series.windows import Windows
from regard.look.case import Case
from regard.look.records import AttentionRecord
from regard.models.forecaster import Forecaster
from regard.outputs.base import LookOptions, Told
from regard.outputs.batched import device_of
from regard.outputs.result import Candidate, Picture, Prediction
from regard.outputs.values.looking import LookedAt, find_target, forecast_case
from regard.outputs.values.result import Forecast, SeriesForecast, as_csv, drawn
from regard.outputs.values.training import ValuesTraining
from regard.work import before_step

PICTURES = 2  # of validation windows in the report
AT_ONCE = 256  # windows that are asked about together
FEW = 6  # numbers of a forecast where it is told in a line


class ValuesOutput(ValuesTraining):
    def sample(self, model: Forecaster, example: Example) -> str:
        """The first target of a validation window: what was said, and what did happen."""
        one = self.said(model, [example.input])
        few = np.unique(np.linspace(0, len(one.times) - 1, FEW).astype(int))
        said, true = ("  ".join(f"{table[step, 0]:.4g}" for step in few) for table in (one.values, one.actual))
        return f"{one.targets[0]}, {one.times[0]} to {one.times[-1]}\n→ {said}\n= {true}"

    def pictures(self, model: Forecaster, valid: Windows) -> list[Picture]:
        """Validation windows with what was predicted."""
        return [drawn("validation windows", [self.said(model, [item]) for item in valid.some(PICTURES)])]

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: Forecaster, inputs: Sequence[Any]) -> list[Prediction]:
        """For each table (a Path, the text of a CSV, or columns by name) the steps of all its series."""
        return [self._forecast(model, one) for one in inputs]

    def _forecast(self, model: Forecaster, one: Any) -> Forecast:
        how, roles = self.recipe.decoding, self.input.fitted.roles
        groups = [[one]] if isinstance(one, SeriesItem) else [
            [windows.item(number) for number in range(len(windows))]
            for windows in self.input.windows_to_predict(one, how.series, how.at)
        ]  # fmt: skip
        found = tuple(self.said(model, items) for items in groups)
        text = as_csv(found, roles.time or "line", roles.id)
        return Forecast(self.input.name(one), [Candidate(text)], None, found)

    @torch.inference_mode()
    def said(self, model: Forecaster, items: Sequence[SeriesItem]) -> SeriesForecast:
        """What the model says for windows of one series, joined along time; later windows only add what is new."""
        fitted, last, convert = self.input.fitted, items[-1], self.input.layout.convert
        bands, times, done = [], [], -np.inf
        for said, item in zip(self._values(model, items), items, strict=True):
            new = item.ahead > done
            done = item.ahead[-1]
            bands.append(said.double().cpu().numpy()[new])
            times.append(item.ahead[new])
        restored = fitted.scaler.restored
        table = restored(np.concatenate(bands).swapaxes(1, 2)).swapaxes(1, 2)  # T M P
        own, true = (some.astype(np.float64) for some in (last.numbers[:, : model.targets], last.later))
        true = true[~np.isnan(true).any(axis=1)] if len(items) == 1 else true[:0]
        return SeriesForecast(
            last.name, labels(np.concatenate(times), fitted.dates), fitted.roles.targets,
            table[..., model.middle], tuple(self.recipe.model.quantiles),
            table if len(model.quantiles) else table[..., :0],
            [] if convert else labels(last.times, fitted.dates), own[:0] if convert else restored(own), restored(true),
        )  # fmt: skip

    def _values(self, model: Forecaster, items: Sequence[SeriesItem]) -> Tensor:
        """N T M P, scaled."""
        device, found = device_of(model), []
        for start in range(0, len(items), AT_ONCE):
            some = items[start : start + AT_ONCE]
            before_step(sum(map(self.input.length, some)))
            known = torch.from_numpy(np.stack([item.known for item in some])).to(device)
            found.append(model.predict(self.input.collate(some).to(device), known))
        return torch.cat(found)

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Forecaster, one: Any, options: LookOptions) -> list[Told]:
        """Of decoding.series, or the first; at decoding.at, or the end; decoding.target, or the first."""
        if options.output is not None:
            raise CallError("a forecast is looked at as it is: numbers cannot be given as an output to look at")
        how = self.recipe.decoding
        item = (
            one if isinstance(one, SeriesItem) else self.input.windows_to_predict(one, how.series, how.at)[0].item(-1)
        )
        found = self.said(model, [item])
        target = 0 if how.target is None else find_target(how.target, found.targets)
        few = [*(f"{value:.4g}" for value in found.values[:FEW, target]), *(["…"] if len(found.times) > FEW else [])]
        text = f"{found.targets[target]}, {found.times[0]} to {found.times[-1]}: {', '.join(few)}"
        return [Told(LookedAt(item, target), text, said=found.said(target))]

    def again(self, model: Forecaster, told: Told, one: Any) -> Told:
        """Of each input its own: what is asked about is the number, whatever it is."""
        return self.tell(model, one, LookOptions())[0]

    def case(self, model: Forecaster, one: Any, told: Told) -> Case:
        return forecast_case(model, self.input, told.target, lambda items: self._values(model, items))

    def looked(self, record: AttentionRecord, told: Told) -> AttentionRecord:
        item = told.target.item
        first, last = labels(item.times[[0, -1]], self.input.fitted.dates)
        return replace(record, input=f"{item.name} {first} to {last}".strip())
