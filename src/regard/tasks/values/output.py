"""Numeric output: the steps ahead, or one series over the time of others, all predicted in one pass.

ŷ = decoder or head (Memory of the past, columns known ahead)         in the units of the table
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.data.check_report import CheckReport
from regard.data.examples import Example
from regard.data.tables import Role
from regard.decoders.recurrent import Context, RecurrentReader
from regard.encoders.series import PatchEncoder
from regard.errors import CallError
from regard.inputs.series.input import WindowInput, series_block
from regard.inputs.series.item import SeriesItem
from regard.inputs.series.prepare import WindowBatches
from regard.inputs.series.windows import WindowLayout, Windows
from regard.look.axis import Axis
from regard.look.case import ExplainTarget, Parts
from regard.look.records import AttentionRecord
from regard.models.build import build_score
from regard.models.forecaster import (
    EncoderDecoderForecaster,
    Forecaster,
    PatchForecaster,
    RecurrentSeriesDecoder,
    TransformerSeriesDecoder,
)
from regard.tasks.base import LookOptions, Output, OutputRef
from regard.tasks.batched import device_of
from regard.tasks.result import Candidate, Measure, Prediction, ReportPicture, Scores, Tally
from regard.tasks.values.forecasting import (
    FEW,
    UNSCORED,
    Forecasting,
    LookedAt,
    SeriesForecast,
    draw_series,
    record_input,
    windows_at_once,
)
from regard.tasks.values.scoring import SHOWN, Baselines, errors, scores, window_errors
from regard.tasks.values.settings import (
    ForecastRecipe,
    ModelSettings,
    PatchForecasterSettings,
    RecurrentForecasterSettings,
)

# Build the model of a forecasting recipe from its settings.


def build_forecaster(s: ModelSettings, encoder: nn.Module, lay: WindowLayout) -> Forecaster:
    """Build the forecaster for windows of this layout."""
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


def _decoder(s: ModelSettings, lay: WindowLayout) -> RecurrentSeriesDecoder | TransformerSeriesDecoder:
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


# Training of a forecaster on windows of a table, and its comparison with baselines from the same table.
#
# Examples are windows with numbers as targets instead of ids: they are prepared and batched here.


class ValuesTraining(Output[ForecastRecipe, WindowInput, Forecaster]):
    gives: ClassVar[str] = "numbers"
    unit: ClassVar[str] = "values"

    def __init__(self, recipe: ForecastRecipe, input: WindowInput) -> None:
        super().__init__(recipe, input)
        self._baselines: Baselines | None = None

    def prepare(self, cache: Path, *, strict: bool = True) -> dict[Role, Windows]:
        windows = self.input.prepared_windows(strict=strict)
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
        self.fitted_baselines.save(folder)

    def restore(self, folder: Path) -> None:
        self._baselines = Baselines.load(folder)

    def quick(self, model: Forecaster, valid: Windows) -> dict[str, float]:
        found, _ = errors(model, valid, self.fitted_baselines, self.recipe.decoding.batch)
        return found[""].means()

    def sample_examples(self, valid: Windows, most: int) -> list[Example]:
        return [Example(item, ()) for item in valid.sample_examples(most)]

    def test(self) -> tuple[Windows, str]:
        return self.input.test_windows(), ""

    def test_scores(self, model: Forecaster, examples: Windows, alignments: bool) -> Scores:
        """Return MSE, MAE, MASE and pinball loss with those of the baselines, by step, target and period."""
        batch, lag = self.recipe.decoding.batch, self.recipe.data.lag
        return scores(model, examples, self.input.fitted, self.fitted_baselines, batch, lag)

    def measure(self) -> Measure:
        return Measure("mse", higher_is_better=False, percent=False)

    def spread(self, examples: Windows, most: int) -> Windows:
        return examples.spread(most)

    def answers(self, model: Forecaster, examples: Windows) -> Float[np.ndarray, " N"]:
        """Return the mean squared error of each window."""
        return window_errors(model, examples, self.fitted_baselines, self.recipe.decoding.batch)["model"]

    def baselines(self, train: Windows, examples: Windows) -> dict[str, Float[np.ndarray, " N"]]:
        found = window_errors(None, examples, self.fitted_baselines, self.recipe.decoding.batch)
        return {SHOWN[name]: errors for name, errors in found.items()}

    def tally(self, answers: Float[np.ndarray, " N"], examples: Windows) -> Tally:
        """Return the tally over blocks as long as a horizon, which are resampled together because neighboring windows
        overlap.
        """
        blocks = np.arange(len(answers)) // max(1, examples.layout.horizon)
        return Tally.of_shares(np.stack([np.bincount(blocks, answers), np.bincount(blocks)], 1))

    @property
    def fitted_baselines(self) -> Baselines:
        if self._baselines is None:
            raise RuntimeError("there are no baselines yet: prepare or restore comes first")
        return self._baselines

    def score_outputs(self, model: Forecaster, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Candidate]:
        raise CallError(UNSCORED)


# Attention of a forecaster: rows are steps ahead of one target, columns the steps that were read.
#
# Steps are numbers in the units of the target. A decoder's steps attend to each other in parallel; the patches of
# each target are a separate row of the batch.


def forecast_case(
    model: Forecaster,
    input: WindowInput,
    looked_at: LookedAt,
    axes: Mapping[str, Axis],
    values: Callable[[Sequence[SeriesItem]], Tensor],
) -> ExplainTarget:
    """Return the case. `values`: scaled model outputs for windows: N T M P."""
    item, target = looked_at
    scaler, patches = input.fitted.scaler, isinstance(model, PatchForecaster)

    def ask(without: Sequence[Parts]) -> Tensor:
        said = values([input.without(item, parts) if parts else item for parts in without])[:, :, target, model.middle]
        return said * float(scaler.deviation[target]) + float(scaler.mean[target])

    return ExplainTarget(
        model, ask, axes, axes["source"].real(),
        vectors=model.past, gather=lambda products: input.gather(item, products), number=True,
        each=model.targets if patches else 1, row=target if patches else 0,
    )  # fmt: skip


PICTURES = 2  # validation windows in the report


class ValuesOutput(ValuesTraining):
    def sample(self, model: Forecaster, example: Example) -> str:
        """Return the first target of a validation window: predicted and actual values."""
        one = self.said(model, [example.input])
        few = np.unique(np.linspace(0, len(one.times) - 1, FEW).astype(int))
        said, true = ("  ".join(f"{table[step, 0]:.4g}" for step in few) for table in (one.values, one.actual))
        return f"{one.targets[0]}, {one.times[0]} to {one.times[-1]}\n→ {said}\n= {true}"

    def pictures(self, model: Forecaster, valid: Windows) -> list[ReportPicture]:
        """Return validation windows with their predictions."""
        return [
            draw_series("validation windows", [self.said(model, [item]) for item in valid.sample_examples(PICTURES)])
        ]

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
    def tell(self, model: Forecaster, one: Any, options: LookOptions) -> list[OutputRef]:
        """Return the output to explain: of decoding.series, or the first; at decoding.at, or the end; of
        decoding.target, or the first.
        """
        looked_at, text, found = self._asked(model).line(one, options.output)
        return [OutputRef(looked_at, text, said=found.said(looked_at.target))]

    def rescore(self, model: Forecaster, ref: OutputRef, one: Any) -> OutputRef:
        """Return the prediction for the other input: the explained value is the number itself."""
        return self.tell(model, one, LookOptions())[0]

    def case(self, model: Forecaster, one: Any, ref: OutputRef) -> ExplainTarget:
        axes = self._asked(model).axes(ref.target)
        return forecast_case(model, self.input, ref.target, axes, lambda items: self._values(model, items))

    def finalize_record(self, record: AttentionRecord, ref: OutputRef) -> AttentionRecord:
        return replace(record, input=record_input(ref.target.item, self.input))
