"""Automatic settings: values that are chosen from the data, each with its reason.

Each input and output kind chooses its own settings, from a sample of the data and the training time available.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

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
class Plan:
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
