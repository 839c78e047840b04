"""Attention during training: records of the same validation inputs at every validation.

    RUN/looks/0/00000500.npz        input 0 at step 500; each file is an ordinary record

The output is forced to the reference, so that the table has the same rows at every step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.errors import CallError
from regard.look.card import card
from regard.look.files import load, save
from regard.look.records import Attention, AttentionRecord, Head, Kind

FOLDER = "looks"
MOST_NUMBERS = 250_000  # of one record: one megabyte before compression


@dataclass(frozen=True)
class History:
    """Records of one input, from the first validation to the last."""

    steps: tuple[int, ...]
    records: tuple[AttentionRecord, ...]

    @property
    def last(self) -> AttentionRecord:
        return self.records[-1]

    def figures(
        self, kind: Kind | None = None, layer: int | None = None, head: Head = "mean"
    ) -> dict[str, list[float]]:
        """Return the figures of the chosen weights (entropy; alignment error, if gold is known) at each step."""
        found: dict[str, list[float]] = {}
        for record in self.records:
            for figure in card(record.matrix(kind, layer, head), record):
                found.setdefault(figure.name, []).append(figure.value)
        return found

    def sample_examples(self, most: int) -> list[int]:
        """Return the positions of at most `most` validations, including the first and the last."""
        count = min(most, len(self.steps))
        return sorted({round(place * (len(self.steps) - 1) / max(1, count - 1)) for place in range(count)})

    def as_dict(self, **choice: Any) -> dict[str, Any]:
        return {"input": self.last.input, "output": self.last.output, "steps": self.steps, **self.figures(**choice)}


def keep(record: AttentionRecord, folder: Path, number: int, step: int) -> Path:
    """Add a record to the history of input `number`, atomically."""
    place = folder / FOLDER / str(number)
    place.mkdir(parents=True, exist_ok=True)
    return save(slim(record), place / f"{step:08}.npz")


def slim(record: AttentionRecord, most: int | None = None) -> AttentionRecord:
    """Reduce a record for storage: only its first kind, then one table per layer if still too large."""
    record, most = replace(record, beams=(), evidence=()), MOST_NUMBERS if most is None else most
    if _numbers(record.attentions) <= most:
        return record
    first, positional = record.of_kind(), record.positional
    if _numbers(first) > most:
        first = [replace(one, weights=one.weights.mean(axis=0, keepdims=True)) for one in first]
        positional = {}
    used = {"target", *(side for one in first for side in (one.rows, one.columns))}
    axes = {name: axis for name, axis in record.axes.items() if name in used}
    positional = {head: share for head, share in positional.items() if head.startswith(f"{first[0].kind}.")}
    return replace(record, attentions=tuple(first), axes=axes, positional=positional)


def _numbers(attentions: Sequence[Attention]) -> int:
    return sum(one.weights.size for one in attentions)


def has_history(folder: Path) -> bool:
    return next((folder / FOLDER).glob("*/*.npz"), None) is not None


def load_histories(folder: Path) -> list[History]:
    """Load the histories of all stored inputs that have the same steps as the first."""
    numbers = sorted(int(one.name) for one in (folder / FOLDER).glob("*") if one.name.isdecimal()) or [0]
    found = [load_history(folder, number) for number in numbers]
    return [history for history in found if history.steps == found[0].steps]


def load_history(folder: Path, number: int = 0) -> History:
    """Load the history of input `number`."""
    files = sorted((folder / FOLDER / str(number)).glob("*.npz"))
    if not files:
        kept = sorted(int(one.name) for one in (folder / FOLDER).glob("*") if one.name.isdecimal())
        if kept:
            raise CallError(f"{folder}: input {number} was not kept; kept inputs: {', '.join(map(str, kept))}")
        raise CallError(
            f"{folder} has no attention records of its training: set training.looks to a number of validation inputs "
            "before training (jobs without attention keep none)"
        )
    return History(tuple(int(file.stem) for file in files), tuple(load(file) for file in files))
