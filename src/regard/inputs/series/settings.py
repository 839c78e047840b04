"""Settings of series: the table, windows that are cut from it, labeled series, and encoders."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from regard.data.settings import Testing, held_out, share_for_test
from regard.settings.base import Settings
from regard.settings.model import ScoreName
from regard.settings.recipe import Decision, round_up

MOST_TEXTS = 50  # of a column of texts among the covariates: each becomes a column
Calendar = Literal["hour", "weekday", "monthday", "yearday"]


def names(value: Any) -> Any:
    """Split `a,b` of a command line into the list [a, b]."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(names)]


# ---------------------------------------------------------------------------------------------------------------- data
class TableSettings(Settings):
    """Source and format of a table of times and numbers: CSV, TSV, Parquet (also .gz, .bz2, .xz,
    .zst), or corpus:NAME.
    """

    train: str = Field(description="the table: FILE.csv, FILE.tsv, FILE.parquet or corpus:NAME")
    valid: str | None = Field(None, description="validation data, if it is another file")
    test: str | None = Field(None, description="test data, if it is another file, for `regard evaluate`")
    time: str | None = Field(None, description="column of times; by default 'time', 'date', 'timestamp' or the first")
    time_format: str | None = Field(
        None, description="format for strptime (%d.%m.%Y); by default the one that fits the data"
    )
    id: str | None = Field(None, description="column with the series of a line; by default there is one series")
    gaps: Literal["refuse", "fill", "split", "ignore"] = Field(
        "refuse",
        description="missing and irregular times, empty cells: refuse; fill with the last value; split the series "
        "there; ignore the clock and take line after line",
    )
    max_bad: float = Field(0.01, ge=0, le=1, description="the share of unreadable lines that is tolerated")
    scale: Literal["standard", "none"] = Field(
        "standard", description="standard: mean 0 and deviation 1 over the training part, column by column"
    )


class WindowSettings(TableSettings):
    """Table with a column of times, in windows of input steps and steps to predict.

    One file is divided by time into a training part, then a validation part, then a test part, or
    each part has a file.
    """

    split: Annotated[list[float], BeforeValidator(names), Field(min_length=3, max_length=3)] = Field(
        [0.7, 0.1, 0.2], description="training, validation and test part: shares or numbers of time steps"
    )
    targets: Names = Field([], description="columns to predict: a,b; by default all columns of numbers")
    past: Names = Field([], description="covariates that are known only up to the present")
    future: Names = Field([], description="covariates that are known ahead, such as holidays or planned prices")
    calendar: Annotated[list[Calendar], BeforeValidator(names)] = Field(
        [], description="features of the date: hour, weekday, monthday, yearday; known ahead"
    )
    mode: Literal["forecast", "convert"] = Field(
        "forecast",
        description="forecast the steps after the look-back, or convert: the targets over its last steps, from past",
    )
    look_back: int = Field(96, ge=1, description="steps that the model reads")
    horizon: int = Field(24, ge=1, description="steps that it predicts")
    season: int | None = Field(None, ge=1, description="steps of a season; by default a day, week or year, by the step")
    lag: int | None = Field(None, ge=0, description="a known lag, which `evaluate` checks")

    def problems(self) -> Iterator[tuple[str, str]]:
        columns = [*self.targets, *self.past, *self.future, *filter(None, (self.time, self.id))]
        twice = sorted({name for name in columns if columns.count(name) > 1})
        if twice:
            yield "targets", f"and the other columns share {', '.join(twice)}; a column has one role"
        if self.mode == "convert":
            if not self.targets or not (self.past or self.future):
                yield "mode", "needs targets=... (to predict) and past=... or future=... (inputs)"
            if self.horizon > self.look_back:
                yield "horizon", f"is more than look_back={self.look_back}: the targets lie inside the input"
        if any(part < 0 for part in self.split) or self.split[0] <= 0:
            yield "split", "must be positive"
        elif sum(self.split) > 1 + 1e-9 and any(part != int(part) for part in self.split):
            yield "split", "must be three shares that add up to at most 1, or three whole numbers of steps"


class LabeledSeriesSettings(TableSettings):
    """Labeled series: a table with columns for series and label, or a folder of tables by class."""

    testing: ClassVar[Testing] = Testing()

    train: str = Field(description="training series: FILE, a folder with a sub-folder for each class, corpus:NAME")
    valid: str | None = Field(None, description="validation series; by default a held-out part of the training series")
    test: str | None = Field(None, description="test series, for `regard evaluate`")
    time: str | None = Field(None, description="column of times; by default 'time', 'date', ...; else a line is a step")
    id: str | None = Field("id", description="column with the series of a line; a folder needs none")
    label: str = Field("label", description="column of the label, the same in all lines of a series")
    columns: Names = Field([], description="columns that are read: a,b; by default all columns of numbers")
    valid_share: float = held_out(0.1, "training series")
    test_share: float = share_for_test("the training series")
    valid_most: int = Field(2000, ge=1, description="about how many training series to hold out at most for validation")


# ------------------------------------------------------------------------------------------------------------- readers
class RecurrentSeriesSettings(Settings):
    """GRU or LSTM over the steps of a series."""

    kind: Literal["recurrent"] = Field("recurrent", description="recurrent, transformer or patch")
    cell: Literal["gru", "lstm"] = Field("gru", description="recurrent cell of encoder and decoder")
    width: int = Field(64, ge=1, description="width of states")
    encoder_layers: int = Field(1, ge=1, description="depth of the encoder")
    bidirectional: bool = Field(True, description="read the past in both directions")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of activations dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.width % 2:
            yield "width", "must be even: positions are sines and cosines, and two directions have half of it each"


class TransformerSeriesSettings(Settings):
    """Transformer encoder over the steps of a series."""

    kind: Literal["transformer"] = Field("transformer", description="recurrent, transformer or patch")
    width: int = Field(64, ge=1, description="width of the vectors between layers (d_model)")
    heads: int = Field(4, ge=1, description="attention heads")
    feed_forward: int = Field(128, ge=1, description="width inside the feed-forward layers")
    encoder_layers: int = Field(2, ge=0, description="depth of the encoder")
    score: ScoreName = Field("scaled_dot", description="attention score of a query and a key")
    dropout: float = Field(0.1, ge=0, lt=1, description="share of activations dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.width % self.heads:
            yield "heads", f"must divide width={self.width}"


class PatchSettings(Settings):
    """PatchTST: pieces of a series as tokens; each target separately, with the same weights."""

    kind: Literal["patch"] = Field("patch", description="recurrent, transformer or patch")
    patch: int = Field(16, ge=1, description="steps in a patch")
    stride: int = Field(8, ge=1, description="steps from patch to patch")
    width: int = Field(16, ge=1, description="width of the vectors between layers (d_model)")
    heads: int = Field(4, ge=1, description="attention heads")
    feed_forward: int = Field(128, ge=1, description="width inside the feed-forward layers")
    layers: int = Field(3, ge=1, description="depth")
    dropout: float = Field(0.3, ge=0, lt=1, description="share of activations dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        if self.width % self.heads:
            yield "heads", f"must divide width={self.width}"
        if self.stride > self.patch:
            yield "stride", f"is more than patch={self.patch}: some steps would be skipped"


# Settings chosen from a table of series: look-back and horizon.

WITHOUT_CLOCK = 24  # steps ahead, if the table has no clock and so no season
TRAINED = 0.7  # share of the steps for training
WINDOWS = 1000  # desired number of training windows, over all series


def windows(facts: Any, told: Mapping[str, Any]) -> tuple[list[Decision], int, int]:
    """Choose look-back and horizon: the horizon first, then both together; if the user set one,
    the other follows from it.
    """
    season, steps = facts.season, facts.steps
    wanted = season if season > 1 else WITHOUT_CLOCK
    horizon = _requested_steps(told, "data.horizon") or max(1, min(wanted, steps // 10))
    why = (
        f"one season of {season} steps"
        if horizon == season
        else f"{steps:,} steps are enough for windows of this length"
    )
    spare = TRAINED * steps - horizon - WINDOWS / facts.series
    most = max(steps / 12, min(steps / 3, spare))
    look_back = max(horizon, min(512, 14 * horizon, int(most)))
    look_back = _requested_steps(told, "data.look_back") or (
        look_back if look_back < 16 else round_up(look_back - 7, 8)
    )
    back = (
        f"14 horizons, at most 512 steps, and less than a third of the {steps:,} there are: there must be many windows"
    )
    decisions = [Decision("data.horizon", horizon, why), Decision("data.look_back", look_back, back)]
    how, filled = ("fill", "; missing values get the last value") if facts.regular > 0.9 else ("ignore", "")
    why = f"{facts.regular:.0%} of the times follow each other regularly{filled}"
    decisions.append(Decision("data.gaps", how, why))
    return decisions, look_back, look_back + horizon


def _requested_steps(told: Mapping[str, Any], key: str) -> int:
    """Return the user's setting if it is a number of steps; other values are rejected by their field."""
    text = str(told.get(key, ""))  # a command line passes only texts
    return int(text) if text.isdecimal() else 0
