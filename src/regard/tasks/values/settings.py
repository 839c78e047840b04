"""The recipe of series from series: forecasting, and prediction of one series from others over the same time."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from regard.inputs.series import settings as series
from regard.inputs.series.settings import (
    PatchSettings,
    RecurrentSeriesSettings,
    TransformerSeriesSettings,
    WindowSettings,
    names,
)
from regard.settings.base import Settings
from regard.settings.model import ScoreName
from regard.settings.recipe import Decisions, Recipe, Sample, Size


class ValuesSettings(Settings):
    """Settings of the layers above every encoder, and of the loss."""

    quantiles: Annotated[list[Annotated[float, Field(gt=0, lt=1)]], BeforeValidator(names)] = Field(
        [], description="quantiles to predict, such as 0.1,0.5,0.9; none: one value for each step"
    )
    loss: Literal["mse", "mae"] = Field("mse", description="training loss if `quantiles` is empty")
    instance_norm: Literal["window", "last", "none"] = Field(
        "window",
        description="subtracted from each window's targets and added to the output again: its mean and deviation, its "
        "last value, or nothing",
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.quantiles and (sorted(set(self.quantiles)) != self.quantiles or 0.5 not in self.quantiles):
            yield "quantiles", "must rise, and 0.5 must be among them: the median is the prediction"


class RecurrentForecasterSettings(RecurrentSeriesSettings, ValuesSettings):
    """A recurrent encoder reads the past, a recurrent decoder predicts the future, with or without attention."""

    context: Literal["initial", "constant", "attention"] = Field(
        "attention",
        description="how the past reaches the decoder: as its first state, as one vector at every step, by attention",
    )
    query: Literal["previous", "current"] = Field(
        "current", description="state used as query: before the step (Bahdanau) or after it (Luong); attention only"
    )
    score: ScoreName = Field("additive", description="how a query is scored against a key; attention only")
    decoder_layers: int = Field(1, ge=1, description="depth of the decoder")


class TransformerForecasterSettings(TransformerSeriesSettings, ValuesSettings):
    """Transformer encoder over the past; all steps ahead attend to it at once."""

    decoder_layers: int = Field(2, ge=1, description="depth of the decoder")


class PatchForecasterSettings(PatchSettings, ValuesSettings):
    """PatchTST: patches of a series as tokens, each target separately, with the same weights for all."""

    shortcut: bool = Field(
        False, description="add a linear map of the whole look-back to the output of the Transformer"
    )
    head_dropout: float = Field(0.0, ge=0, lt=1, description="the same, before the output layer")


ModelSettings = RecurrentForecasterSettings | TransformerForecasterSettings | PatchForecasterSettings


class ForecastOutputSettings(Settings):
    """Which part of a table is predicted."""

    series: str | None = Field(None, description="only this one of several series")
    target: str | None = Field(None, description="target to explain; by default the first")
    at: str | None = Field(None, description="last time that the model reads; by default the table's end")
    batch: int = Field(256, ge=1, description="windows that go through the model together")


class ForecastRecipe(Recipe):
    """Series from series: the steps ahead, or one series from others over the same time."""

    job: Literal["forecast"] = Field("forecast", description="the job: series from series")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: WindowSettings = Field(description="the user's table and how it is read")
    model: Annotated[ModelSettings, Field(discriminator="kind")] = Field(description="the model and its sizes")
    decoding: ForecastOutputSettings = Field(
        ForecastOutputSettings.model_validate({}), description="which part of a table is predicted"
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        data, model = self.data, self.model
        if isinstance(model, PatchForecasterSettings):
            if data.past or data.future or data.calendar:
                yield (
                    "model.kind",
                    "reads each target separately; past, future and calendar need recurrent or transformer",
                )
            if model.patch > data.look_back:
                yield "model.patch", f"is longer than data.look_back={data.look_back}"
        if data.mode == "convert" and model.instance_norm != "none":
            yield "model.instance_norm", "needs the targets' past, which data.mode=convert does not have"
        step = data.look_back + data.horizon
        if self.training.max_tokens < step:
            yield "training.max_tokens", f"is less than one window of look_back + horizon = {step} steps"


# Automatic settings of a forecaster.

SAMPLE, SERIES = 8000, 20  # steps of a series, and number of series, for measuring the speed of a model
FEWEST, USUAL = 16, 64  # windows of a batch: neighbors are similar, so small batches carry little information


def decide(kinds: tuple[str, str], sample: Sample) -> Decisions:
    decisions, look_back, window = series.windows(sample.inputs[0], sample.told)
    facts = sample.inputs[0]
    steps = max(SAMPLE, 4 * window) * min(facts.series, SERIES)
    week = 3 <= facts.season <= 16 and look_back >= 3 * facts.season
    patch = facts.season if week else 16 if look_back >= 128 else max(1, look_back // 8)
    levels = facts.series > 1  # several series have different levels and spreads
    norm = "window" if levels else "last"
    if facts.categories:  # patches read each target separately
        common: dict[str, Any] = {"kind": "recurrent", "context": "attention", "dropout": 0.1, "instance_norm": norm}
        sizes = [Size("small", {**common, "width": 32}, 6), Size("middle", {**common, "width": 64}, 20)]
        return Decisions(decisions, sizes, FEWEST * window, USUAL * window, steps)
    common = {
        "kind": "patch", "patch": patch, "stride": patch, "heads": 4, "dropout": 0.2, "shortcut": True,
        "instance_norm": norm,
    }  # fmt: skip
    return Decisions(decisions, [
        Size("small", {**common, "width": 16, "feed_forward": 64, "layers": 2}, 2),
        Size("middle", {**common, "width": 32, "feed_forward": 128, "layers": 2}, 30),
    ], FEWEST * window, USUAL * window, steps)  # fmt: skip
