"""What is decided for a user who only points at data: a value for a setting, and the reason that stands beside it.

Every input and every output decides for its own settings, from a sample of the data and the time there is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

AUTO = "auto"  # what a recipe says where its data is to decide


class Decision(NamedTuple):
    key: str  # such as data.tokenizer.size
    value: Any
    why: str


class Size(NamedTuple):
    """A model that could be trained: its settings, from `model.` on, the passes over the data that it needs, and the
    fewest examples with which it is better than a smaller one. `training`: settings of that section that it needs.

    Of one whose `path` is package:NAME, a run is made first."""

    name: str
    settings: dict[str, Any]
    passes: float
    least: int = 0
    training: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Sample:
    """What is known of data before there is a recipe: some examples of it, spread over all of them.

    `inputs`: texts, or facts of pictures, recordings and tables; `targets`: texts, empty where there are none.
    `told`: settings that the user has decided already, by their dotted keys: what follows from them is decided here.
    """

    count: int
    inputs: Sequence[Any]
    targets: Sequence[str]
    seconds: float  # to train
    told: Mapping[str, Any] = field(default_factory=dict)
    several: bool = False  # whether a target may be several labels


@dataclass(frozen=True)
class Plan:
    """What was decided. Of `sizes`, small to large, the largest is taken that can make its passes in time. Batches
    of little data are small, but have at least `batch` tokens (regions, frames, steps); of much, `usual` ones.

    `sample`: how much of large data shows how fast a model is, as data is counted; 0: some thousand examples."""

    decisions: list[Decision]
    sizes: list[Size] = field(default_factory=list)
    batch: int = 0
    usual: int = 4096
    sample: int = 0


def watch(metric: str, why: str) -> Decision:
    """The score of validation that decides which weights are best."""
    return Decision("training.metric", metric, why)


def percentile(values: Sequence[float], percent: float) -> float:
    """The least value that so many per cent of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0


def round_up(value: float, to: int) -> int:
    return max(to, -(-int(value) // to) * to)


def plain_time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:g} seconds"
    return f"{seconds / 60:.3g} minutes" if seconds < 7200 else f"{seconds / 3600:.3g} hours"
