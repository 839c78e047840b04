"""The sections that every recipe has. Each job adds its own, in the package of its output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field, field_validator

from regard.settings.base import Settings
from regard.settings.training import TrainingSettings


class Expected(Settings):
    """The known score of a recipe, for `regard verify`."""

    metric: str = Field("bleu", description="name of the score, as `regard evaluate` prints it")
    score: float = Field(description="expected score")
    spread: float = Field(1.0, ge=0, description="largest difference from `score` that still counts as reproduced")
    mode: Literal["min", "max"] = Field("max", description="whether a smaller or a larger score is better")


class Variant(Settings):
    """One of the systems that `regard compare` compares."""

    name: str = Field(description="name in the table")
    set: dict[str, Any] = Field(description="dotted keys and their values in this variant")


class StartSettings(Settings):
    """Fine-tuning: start from the weights of another run that fit. `start: RUN` is short for `start.run`."""

    run: str = Field(description="folder of a run, trained or imported")
    vocabulary: Literal["keep", "new"] = Field(
        "keep", description="keep the tokenizers of that run, or learn new ones and copy the vectors of shared tokens"
    )


#: Files of a run's folder.
CONFIG, WEIGHTS, SUMMARY = "config.yaml", "model.safetensors", "summary.json"


class Recipe(Settings):
    """The sections of every recipe; each job adds its own."""

    job: str = Field(description="the job")
    if TYPE_CHECKING:  # the sections of a job, by the settings of its input and its output
        data: Any
        model: Any
        decoding: Any
    about: str = Field("", description="description of the recipe in one line")
    needs: list[str] = Field([], description="extras of regard that it uses, such as spelling")
    start: StartSettings | None = Field(None, description="the run that training starts from; null: random weights")
    training: TrainingSettings = Field(TrainingSettings.model_validate({}), description="how the model is trained")
    expected: Expected | None = Field(None, description="known score of the recipe")
    variants: list[Variant] = Field([], description="what `regard compare` compares by default")

    @field_validator("start", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        return {"run": value} if isinstance(value, str) else value


# Automatic settings: values that are chosen from the data, each with its reason.
#
# Each input and output kind chooses its own settings, from a sample of the data and the training time available.

AUTO = "auto"  # in a recipe: choose this value from the data


class Decision(NamedTuple):
    key: str  # such as data.tokenizer.size
    value: Any
    why: str


class Size(NamedTuple):
    """A model size that can be trained: its settings (keys from `model.` on), the passes over the data that it needs,
    and the fewest examples with which it beats a smaller one. `training`: settings of that section that it needs.

    If `path` is package:NAME, a run is created from that package first."""

    name: str
    settings: dict[str, Any]
    passes: float
    least: int = 0
    training: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Sample:
    """Facts about the data before a recipe exists: examples, sampled evenly from the whole data.

    `inputs`: texts, or facts about pictures, recordings and tables; `targets`: texts, empty if there are none.
    `told`: settings that the user has set already, by dotted key; the automatic ones must be consistent with them.
    """

    count: int
    inputs: Sequence[Any]
    targets: Sequence[str]
    seconds: float  # available for training
    told: Mapping[str, Any] = field(default_factory=dict)
    several: bool = False  # whether a target may have several labels


@dataclass(frozen=True)
class Decisions:
    """Automatic settings. Of `sizes` (small to large), the largest that can make its passes in time is used. Small data
    gets small batches, of at least `batch` tokens (regions, frames, steps); large data gets batches of `usual` tokens.

    `sample`: how much of large data is used to measure the speed of a model, in units of data; 0: a few thousand
    examples."""

    decisions: list[Decision]
    sizes: list[Size] = field(default_factory=list)
    batch: int = 0
    usual: int = 4096
    sample: int = 0


def watch(metric: str, why: str) -> Decision:
    """Return the setting of the validation metric that selects the best weights."""
    return Decision("training.metric", metric, why)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that is at least as large as `percent` per cent of all values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0


def round_up(value: float, to: int) -> int:
    return max(to, -(-int(value) // to) * to)


def plain_time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:g} seconds"
    return f"{seconds / 60:.3g} minutes" if seconds < 7200 else f"{seconds / 3600:.3g} hours"
