"""The recipe of series from series: forecasting, and one series from others over the same time."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from regard.settings.base import Settings
from regard.settings.model import ScoreName
from regard.settings.recipe import Recipe

Calendar = Literal["hour", "weekday", "monthday", "yearday"]


def names(value: Any) -> Any:
    """`a,b` on a command line is the list [a, b]."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(names)]


class SeriesDataSettings(Settings):
    """A table with a column of times: CSV, TSV, Parquet (also .gz, .zst for text), or corpus:NAME.

    One file is divided by time into a training part, then a validation part, then a test part, or each part has a file.
    """

    train: str = Field(description="the table: FILE.csv, FILE.tsv, FILE.parquet or corpus:NAME")
    valid: str | None = Field(None, description="validation data, if it is another file")
    test: str | None = Field(None, description="test data, if it is another file, for `regard evaluate`")
    split: Annotated[list[float], BeforeValidator(names), Field(min_length=3, max_length=3)] = Field(
        [0.7, 0.1, 0.2], description="training, validation and test part: shares of the time steps, or how many of them"
    )

    time: str | None = Field(None, description="column of times; by default 'time', 'date', 'timestamp' or the first")
    time_format: str | None = Field(
        None, description="of the times, as strptime has it (%d.%m.%Y); by default ISO dates, or numbers"
    )
    id: str | None = Field(None, description="column that says which series a line belongs to; by default there is one")
    targets: Names = Field([], description="columns to predict: a,b; by default all columns of numbers")
    past: Names = Field([], description="columns that help, known only until now")
    future: Names = Field([], description="columns that help and are known ahead, such as holidays or planned prices")
    calendar: Annotated[list[Calendar], BeforeValidator(names)] = Field(
        [], description="what to tell of the date: hour, weekday, monthday, yearday; known ahead"
    )

    mode: Literal["forecast", "convert"] = Field(
        "forecast",
        description="forecast the steps after the look-back, or convert: the targets over its last steps, from past",
    )
    look_back: int = Field(96, ge=1, description="steps that the model reads")
    horizon: int = Field(24, ge=1, description="steps that it predicts")
    season: int | None = Field(
        None, ge=1, description="steps of a season, for baselines; by default a day, week or year, by the step"
    )
    gaps: Literal["refuse", "fill", "split", "ignore"] = Field(
        "refuse",
        description="missing and irregular times, empty cells: refuse; fill with the last value; split the series "
        "there; ignore the clock and take line after line",
    )
    max_bad: float = Field(0.01, ge=0, le=1, description="the share of unreadable lines that is tolerated")
    scale: Literal["standard", "none"] = Field(
        "standard", description="standard: mean 0 and deviation 1 over the training part, column by column"
    )
    lag: int | None = Field(
        None, ge=0, description="a lag that is known to be there: `evaluate` holds attention against it"
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        columns = [*self.targets, *self.past, *self.future, *filter(None, (self.time, self.id))]
        twice = sorted({name for name in columns if columns.count(name) > 1})
        if twice:
            yield "targets", f"and the other columns share {', '.join(twice)}; a column has one part to play"
        if self.mode == "convert":
            if not self.targets or not (self.past or self.future):
                yield "mode", "needs targets=... (what is sought) and past=... or future=... (what it comes from)"
            if self.horizon > self.look_back:
                yield "horizon", f"is more than look_back={self.look_back}: the targets lie inside of what is read"
        if any(part < 0 for part in self.split) or self.split[0] <= 0:
            yield "split", "must be positive"
        elif not (_shares(self.split) or all(part == int(part) for part in self.split)):
            yield "split", "must be three shares that add up to at most 1, or three whole numbers of steps"


def _shares(split: list[float]) -> bool:
    return sum(split) <= 1 + 1e-9


class _ModelSettings(Settings):
    """What all forecasters have."""

    quantiles: Annotated[list[Annotated[float, Field(gt=0, lt=1)]], BeforeValidator(names)] = Field(
        [], description="quantiles to predict, such as 0.1,0.5,0.9; none: one value for each step"
    )
    loss: Literal["mse", "mae"] = Field("mse", description="error that is made small, where there are no quantiles")
    instance_norm: Literal["window", "last", "none"] = Field(
        "window",
        description="taken from each window's targets and given back to the output: its mean and deviation, its last "
        "value, or nothing",
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.quantiles and (sorted(set(self.quantiles)) != self.quantiles or 0.5 not in self.quantiles):
            yield "quantiles", "must rise, and 0.5 must be among them: the median is the prediction"


class RecurrentForecasterSettings(_ModelSettings):
    """A recurrent encoder reads the past, a recurrent decoder writes the future; with attention or without."""

    kind: Literal["recurrent"] = Field("recurrent", description="recurrent, transformer or patch")
    cell: Literal["gru", "lstm"] = Field("gru", description="recurrent cell of encoder and decoder")
    context: Literal["initial", "constant", "attention"] = Field(
        "attention",
        description="how the past reaches the decoder: as its first state, as one vector at every step, by attention",
    )
    query: Literal["previous", "current"] = Field(
        "current", description="state that asks: before the step (Bahdanau) or after it (Luong); attention only"
    )
    score: ScoreName = Field("additive", description="how a query is held against a key; attention only")
    width: int = Field(64, ge=1, description="width of states")
    encoder_layers: int = Field(1, ge=1, description="depth of the encoder")
    decoder_layers: int = Field(1, ge=1, description="depth of the decoder")
    bidirectional: bool = Field(True, description="read the past in both directions")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of activations dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.width % 2:
            yield "width", "must be even: positions are sines and cosines, and two directions have half of it each"


class TransformerForecasterSettings(_ModelSettings):
    """Transformer encoder over the past; all steps ahead attend to it at once."""

    kind: Literal["transformer"] = Field("transformer", description="recurrent, transformer or patch")
    width: int = Field(64, ge=1, description="width of the vectors between layers (d_model)")
    heads: int = Field(4, ge=1, description="attention heads")
    feed_forward: int = Field(128, ge=1, description="width inside the feed-forward layers")
    encoder_layers: int = Field(2, ge=0, description="depth of the encoder")
    decoder_layers: int = Field(2, ge=1, description="depth of the decoder")
    score: ScoreName = Field("scaled_dot", description="how a query is held against a key")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of activations dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.width % self.heads:
            yield "heads", f"must divide width={self.width}"


class PatchForecasterSettings(_ModelSettings):
    """PatchTST: pieces of a series as words, each target on its own, with the same weights for all."""

    kind: Literal["patch"] = Field("patch", description="recurrent, transformer or patch")
    patch: int = Field(16, ge=1, description="steps in a patch")
    stride: int = Field(8, ge=1, description="steps from patch to patch")
    width: int = Field(16, ge=1, description="width of the vectors between layers (d_model)")
    heads: int = Field(4, ge=1, description="attention heads")
    feed_forward: int = Field(128, ge=1, description="width inside the feed-forward layers")
    layers: int = Field(3, ge=1, description="depth")
    dropout: float = Field(0.3, ge=0, lt=1, description="share of activations dropped in training")
    shortcut: bool = Field(False, description="add a linear map of the whole look-back to what the Transformer says")
    head_dropout: float = Field(0.0, ge=0, lt=1, description="the same, before the output layer")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.width % self.heads:
            yield "heads", f"must divide width={self.width}"
        if self.stride > self.patch:
            yield "stride", f"is more than patch={self.patch}: some steps would never be read"


ModelSettings = RecurrentForecasterSettings | TransformerForecasterSettings | PatchForecasterSettings


class ForecastOutputSettings(Settings):
    """What of a table is predicted."""

    series: str | None = Field(None, description="only this one of several series")
    target: str | None = Field(None, description="only this target, where one is looked at; by default the first")
    at: str | None = Field(None, description="the last time that the model may know; by default the table's end")
    batch: int = Field(256, ge=1, description="windows that go through the model together")


class ForecastRecipe(Recipe):
    """Series from series: the steps ahead, or one series from others over the same time."""

    job: Literal["forecast"] = Field("forecast", description="the job: series from series")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: SeriesDataSettings = Field(description="the user's table and how it is read")
    model: Annotated[ModelSettings, Field(discriminator="kind")] = Field(description="the model and its sizes")
    decoding: ForecastOutputSettings = Field(
        ForecastOutputSettings.model_validate({}), description="what of a table is predicted"
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        data, model = self.data, self.model
        if isinstance(model, PatchForecasterSettings):
            if data.past or data.future or data.calendar:
                yield "model.kind", "reads each target alone; past, future and calendar need recurrent or transformer"
            if model.patch > data.look_back:
                yield "model.patch", f"is longer than data.look_back={data.look_back}"
        if data.mode == "convert" and model.instance_norm != "none":
            yield "model.instance_norm", "needs the targets' own past, which data.mode=convert does not have"
        step = data.look_back + data.horizon
        if self.training.max_tokens < step:
            yield "training.max_tokens", f"is less than one window of look_back + horizon = {step} steps"
