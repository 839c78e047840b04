"""What `predict` gives for a table: the steps of every series, as arrays, as CSV, as JSON, as a picture."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import CallError
from regard.look.render import SUFFIXES
from regard.outputs.result import Prediction

SHOWN = 2  # as many horizons of the past are drawn before what was predicted
PICTURES = tuple(suffix for suffix in SUFFIXES if suffix in (".png", ".svg", ".pdf"))


@dataclass(frozen=True)
class SeriesForecast:
    """Steps of one series: T steps, M targets, P quantiles (none: P = 0). `past` and `actual` are for pictures."""

    name: str
    times: list[str]
    targets: tuple[str, ...]
    values: np.ndarray  # T M
    quantiles: tuple[float, ...]
    bands: np.ndarray  # T M P
    past_times: list[str]
    past: np.ndarray  # S M; empty where the targets' own past is not read
    actual: np.ndarray  # up to T M: what did happen, where the table has it

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"series": self.name, "times": self.times}
        found["values"] = {name: self.values[:, m].tolist() for m, name in enumerate(self.targets)}
        if self.quantiles:
            found["quantiles"] = {
                name: {f"{q:g}": self.bands[:, m, p].tolist() for p, q in enumerate(self.quantiles)}
                for m, name in enumerate(self.targets)
            }
        return found


@dataclass(frozen=True)
class Forecast(Prediction):
    """All series of one table. `text` is CSV, a line for each step of each series."""

    series: tuple[SeriesForecast, ...] = ()

    def __getitem__(self, name: str) -> SeriesForecast:
        for one in self.series:
            if one.name == name:
                return one
        raise KeyError(f"no series {name!r}; there are: {', '.join(one.name for one in self.series)}")

    def as_dict(self) -> dict[str, Any]:
        return {"input": self.input, "series": [one.as_dict() for one in self.series]}

    def save(self, path: str | Path) -> Path:
        """Draw into a .png, .svg or .pdf file."""
        from regard.outputs.values.drawing import draw, write

        path = Path(path)
        if path.suffix not in PICTURES:
            raise CallError(f"{path}: a picture's name ends with {', '.join(PICTURES)}")
        write(draw(self.series), path)
        return path


def as_csv(series: tuple[SeriesForecast, ...], time: str, id: str | None) -> str:
    """Columns: the id, if there is one; the time; each target, and its quantiles as target_0.1, ..."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    first = series[0]
    names = [name for target in first.targets for name in (target, *(f"{target}_{q:g}" for q in first.quantiles))]
    writer.writerow([*([id] if id else []), time, *names])
    for one in series:
        for t, when in enumerate(one.times):
            numbers = [n for m in range(len(one.targets)) for n in (one.values[t, m], *one.bands[t, m])]
            writer.writerow([*([one.name] if id else []), when, *(f"{number:.6g}" for number in numbers)])
    return out.getvalue().rstrip("\n")
