"""Values come out: numbers of the steps ahead, or of one series over the time of others, said all at once.

    ŷ = decoder or head (Memory of the past, what is known ahead)         in the units of the table

Examples are windows of a table, and their targets are numbers and not ids: they are prepared and put into batches here.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.check_report import CheckReport
from regard.data.examples import Example
from regard.data.tables import Role
from regard.decoders.recurrent import RecurrentReader
from regard.decoders.recurrent_parts import Context
from regard.decoders.series import RecurrentSeriesDecoder, TransformerSeriesDecoder
from regard.encoders.series import PatchEncoder
from regard.errors import CallError, nearest
from regard.inputs.series.input import series_block
from regard.inputs.series.times import labels
from regard.inputs.series.window_input import WindowInput
from regard.inputs.series.windows import Layout, SeriesItem, WindowBatches, Windows
from regard.look.answer import Answer
from regard.look.axis import axis
from regard.look.case import Case, Parts
from regard.look.records import AttentionRecord
from regard.models.forecaster import EncoderDecoderForecaster, Forecaster
from regard.models.patch_forecaster import PatchForecaster
from regard.outputs.base import LookOptions, Output, Told
from regard.outputs.batched import device_of
from regard.outputs.result import Candidate, Picture, Prediction, Scores
from regard.outputs.values.baselines import Baselines
from regard.outputs.values.result import Forecast, SeriesForecast, as_csv, draw, svg
from regard.outputs.values.scoring import errors, scores
from regard.outputs.values.settings import (
    ForecastRecipe,
    ModelSettings,
    PatchForecasterSettings,
    RecurrentForecasterSettings,
)
from regard.parts import build_score
from regard.work import before_step

PICTURES = 2  # of validation windows in the report
AT_ONCE = 256  # windows that are asked about together
FEW = 6  # numbers of a forecast where it is told in a line
DRAWN = "Past, prediction and what did happen. Shades: intervals between the outer quantiles, where there are any."


class LookedAt(NamedTuple):
    """A window and the target whose steps are looked at."""

    item: SeriesItem
    target: int


class ValuesOutput(Output[ForecastRecipe, WindowInput, Forecaster]):
    gives: ClassVar[str] = "numbers"
    unit: ClassVar[str] = "values"

    def __init__(self, recipe: ForecastRecipe, input: WindowInput) -> None:
        super().__init__(recipe, input)
        self._baselines: Baselines | None = None

    # ------------------------------------------------------------------------------------------------------- training
    def prepare(self, cache: Path, *, strict: bool = True) -> dict[Role, Windows]:
        windows = self.input.windows(strict=strict)
        if strict:
            scaler, season = self.input.fitted.scaler, self.input.season
            self._baselines = Baselines.fit(windows["train"], windows["valid"], scaler, season)
        return windows

    def check(self, splits: dict[Role, Windows]) -> CheckReport:
        return self.input.report(splits)

    def batches(self, split: Windows, max_tokens: int, *, seed: int = 0) -> WindowBatches:
        return WindowBatches(split, max_tokens, seed=seed)

    def build(self) -> Forecaster:
        return build_forecaster(self.recipe.model, self.input.encoder(self.recipe.model), self.input.layout)

    def save(self, folder: Path) -> None:
        self.baselines.save(folder)

    def restore(self, folder: Path) -> None:
        self._baselines = Baselines.load(folder)

    def quick(self, model: Forecaster, valid: Windows) -> dict[str, float]:
        found, _ = errors(model, valid, self.baselines, self.recipe.decoding.batch)
        return found[""].means()

    def some(self, valid: Windows, most: int) -> list[Example]:
        return [Example(item, ()) for item in valid.some(most)]

    def sample(self, model: Forecaster, example: Example) -> str:
        """The first target of a validation window: what was said, and what did happen."""
        one = self.said(model, [example.input])
        few = np.unique(np.linspace(0, len(one.times) - 1, FEW).astype(int))
        said, true = ("  ".join(f"{table[step, 0]:.4g}" for step in few) for table in (one.values, one.actual))
        return f"{one.targets[0]}, {one.times[0]} to {one.times[-1]}\n→ {said}\n= {true}"

    def pictures(self, model: Forecaster, valid: Windows) -> list[Picture]:
        """Validation windows with what was predicted."""
        drawn = draw([self.said(model, [item]) for item in valid.some(PICTURES)])
        return [Picture("Predictions for validation windows", svg(drawn), DRAWN)]

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
        own, true = (some.double().numpy() for some in (last.numbers[:, : model.targets], last.later))
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
            known = torch.stack([item.known for item in some]).to(device)
            found.append(model.predict(self.input.collate(some).to(device), known))
        return torch.cat(found)

    def score(self, model: Forecaster, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Prediction]:
        raise CallError("a forecast is scored against what did happen: regard evaluate RUN data.test=FILE")

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Forecaster, one: Any, options: LookOptions) -> list[Told]:
        """Of decoding.series, or the first; at decoding.at, or the end; decoding.target, or the first."""
        if options.output is not None:
            raise CallError("a forecast is looked at as it is: numbers cannot be given as an output to look at")
        how = self.recipe.decoding
        item = (
            one if isinstance(one, SeriesItem) else self.input.windows_to_predict(one, how.series, how.at)[0].item(-1)
        )
        target = 0 if how.target is None else self._target(how.target)
        found = self.said(model, [item])
        few = [*(f"{value:.4g}" for value in found.values[:FEW, target]), *(["…"] if len(found.times) > FEW else [])]
        text = f"{found.targets[target]}, {found.times[0]} to {found.times[-1]}: {', '.join(few)}"
        return [Told(LookedAt(item, target), text, answer=_answer(found, target))]

    def case(self, model: Forecaster, one: Any, told: Told) -> Case:
        """Steps are the values of one target, in its own units. A decoder's steps read each other, all at once; patches
        of each target are a row of the batch of their own."""
        input, (item, target) = self.input, told.target
        scaler, patches = input.fitted.scaler, isinstance(model, PatchForecaster)

        def ask(without: Sequence[Parts]) -> Tensor:
            items = [input.without(item, parts) if parts else item for parts in without]
            said = self._values(model, items)[:, :, target, model.middle]
            return said * float(scaler.deviation[target]) + float(scaler.mean[target])

        ahead = axis(labels(item.ahead, input.fitted.dates))
        source = input.axis(item, 0 if input.layout.convert else target)
        return Case(
            model, ask, {"target": ahead, "source": source, "read": ahead}, source.real(),
            vectors=model.past, gather=lambda products: input.gather(item, products), number=True,
            each=model.targets if patches else 1, row=target if patches else 0,
        )  # fmt: skip

    def looked(self, record: AttentionRecord, told: Told) -> AttentionRecord:
        item = told.target.item
        first, last = labels(item.times[[0, -1]], self.input.fitted.dates)
        return replace(record, input=f"{item.name} {first} to {last}".strip())

    def _target(self, name: str) -> int:
        targets = self.input.fitted.roles.targets
        if name not in targets:
            raise CallError(f"decoding.target={name!r} is not one of the targets{nearest(name, targets)}")
        return targets.index(name)

    # ------------------------------------------------------------------------------------------------------ evaluation
    def test(self) -> tuple[Windows, str]:
        return self.input.test_windows(), ""

    def test_scores(self, model: Forecaster, examples: Windows, alignments: bool) -> Scores:
        """MSE, MAE, MASE, pinball, with the baselines beside them, by step, target and period."""
        batch, lag = self.recipe.decoding.batch, self.recipe.data.lag
        return scores(model, examples, self.input.fitted, self.baselines, batch, lag)

    @property
    def baselines(self) -> Baselines:
        if self._baselines is None:
            raise RuntimeError("there are no baselines yet: prepare or restore comes first")
        return self._baselines


def _answer(found: SeriesForecast, target: int) -> Answer:
    """The values of one target, within the widest of its bands."""
    values, bands, few = found.values[:, target], found.bands[:, target], found.quantiles
    low, high = (bands[:, 0], bands[:, -1]) if len(few) > 1 else (values[:0], values[:0])
    band = f"{few[0]:g} to {few[-1]:g}" if len(few) > 1 else ""
    true = found.actual[:, target] if len(found.actual) else values[:0]
    numbers: dict[str, Any] = {
        name: tuple(some.tolist())
        for name, some in {"values": values, "low": low, "high": high, "actual": true}.items()
    }
    return Answer("values", tuple(found.times), band=band, **numbers)


def build_forecaster(s: ModelSettings, encoder: nn.Module, lay: Layout) -> Forecaster:
    """The model of a forecasting recipe, for windows of this layout."""
    if isinstance(s, PatchForecasterSettings):
        assert isinstance(encoder, PatchEncoder)
        return PatchForecaster(
            encoder, lay.horizon, lay.targets, s.quantiles,
            loss=s.loss, instance_norm=s.instance_norm, dropout=s.head_dropout,
            shortcut=lay.look_back if s.shortcut else None,
        )  # fmt: skip
    return EncoderDecoderForecaster(
        encoder, _decoder(s, lay), lay.targets, s.quantiles, loss=s.loss, instance_norm=s.instance_norm
    )


def _decoder(s: ModelSettings, lay: Layout) -> RecurrentSeriesDecoder | TransformerSeriesDecoder:
    if isinstance(s, RecurrentForecasterSettings):
        attends = s.context == "attention"
        context: Context = s.query if s.context == "attention" else s.context
        reader = RecurrentReader(
            s.width, s.width, s.width, memory_width=s.width, summary_width=s.width, context=context,
            score=build_score(s.score, s.width, s.width, s.width) if attends else None,
            cell=s.cell, depth=s.decoder_layers, dropout=s.dropout,
        )  # fmt: skip
        return RecurrentSeriesDecoder(lay.ahead, s.width, lay.says_from, reader, dropout=s.dropout)
    assert not isinstance(s, PatchForecasterSettings)
    blocks = [series_block(s, cross=True) for _ in range(s.decoder_layers)]
    return TransformerSeriesDecoder(lay.ahead, s.width, lay.says_from, blocks, dropout=s.dropout)
