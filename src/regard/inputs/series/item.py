"""Series of the user in the form that models read: read from a table and scaled as in training. No torch."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.corpora import PREFIX
from regard.corpora.series import load_labeled_series
from regard.data.tables import Role
from regard.errors import CallError, RegardError
from regard.files import atomic
from regard.inputs.series.panel import Series, load_panel, refuse_errors
from regard.inputs.series.table import Roles, open_table
from regard.inputs.series.times import Step, labels
from regard.look.axis import Axis, axis

FITTED = "series.json"  # in the folder of a run


@dataclass(frozen=True)
class Scaler:
    """Scaling x' = (x − mean) / deviation, column by column. A constant column is only shifted."""

    mean: Float[np.ndarray, " C"]
    deviation: Float[np.ndarray, " C"]

    @classmethod
    def fit(cls, values: Float[np.ndarray, "T C"], how: Literal["standard", "none"]) -> "Scaler":
        if how == "none":
            return cls(np.zeros(values.shape[1]), np.ones(values.shape[1]))
        deviation = values.std(axis=0)
        return cls(values.mean(axis=0), np.where(deviation > 0, deviation, 1.0))

    def scaled(self, values: Float[np.ndarray, "*T C"]) -> Float[np.ndarray, "*T C"]:
        return (values - self.mean) / self.deviation

    def unscale(self, values: Float[np.ndarray, "*T M"]) -> Float[np.ndarray, "*T M"]:
        """Return the scales of the first M columns, the targets."""
        size = values.shape[-1]
        return values * self.deviation[:size] + self.mean[:size]

    def column(self, numbers: Float[np.ndarray, " T"], place: int) -> Float[np.ndarray, " T"]:
        """Restore one column in the units of the table; calendar columns come last and are not scaled."""
        return numbers * self.deviation[place] + self.mean[place] if place < len(self.mean) else numbers


@dataclass(frozen=True)
class Fitted:
    """State that training data determines: roles, scales and step."""

    roles: Roles
    scaler: Scaler
    step: Step
    dates: bool

    def save(self, folder: Path) -> None:
        scaler = {name: numbers.tolist() for name, numbers in vars(self.scaler).items()}
        parts = {"roles": vars(self.roles), "scaler": scaler, "step": vars(self.step)}
        atomic.write_text(folder / FITTED, json.dumps({**parts, "dates": self.dates}, ensure_ascii=False, indent=1))

    @classmethod
    def load(cls, folder: Path) -> "Fitted":
        try:
            read = json.loads((folder / FITTED).read_text(encoding="utf-8"))
            columns = {part: tuple(read["roles"][part]) for part in ("targets", "past", "future")}
            roles = Roles(**{**read["roles"], **columns})
            scaler = Scaler(**{name: np.array(numbers) for name, numbers in read["scaler"].items()})
            return cls(roles, scaler, Step(**read["step"]), read["dates"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RegardError(f"{folder}: the scales of the run cannot be read ({error})") from None


class SeriesItem(NamedTuple):
    """Steps of one series in the form that models read. A window also has what is known of the steps to predict."""

    name: str
    times: Float[np.ndarray, " S"]
    numbers: Float[np.ndarray, "S C"]  # scaled
    ahead: Float[np.ndarray, " T"] = np.empty(0)  # the times to predict
    known: Float[np.ndarray, "T F"] = np.empty((0, 0))
    later: Float[np.ndarray, "T M"] = np.empty((0, 0))  # the targets, where the table has them; NaN beyond

    @classmethod
    def of(cls, series: Series, scaler: Scaler) -> "SeriesItem":
        """Return the item of a whole series."""
        return cls(series.name, series.times, scaler.scaled(series.values).astype(np.float32))


def of_corpus(where: str, role: Role) -> list[Series]:
    return [
        Series(f"{where}#{number}", np.arange(len(one.values), dtype=np.float64), one.values, one.label, one.place)
        for number, one in enumerate(load_labeled_series(where, role))
    ]


def one_of_corpus(word: str) -> Series:
    """Find a series of the test part: corpus:NAME#7 is number 7, from 0."""
    name, _, number = word.partition("#")
    series = of_corpus(name, "test")
    if not number.isdecimal() or int(number) >= len(series):
        raise CallError(f"{word}: give the number of the series, {name}#0 to {name}#{len(series) - 1}")
    return series[int(number)]


class SeriesReader:
    """Base class of series readers, with torch and without."""

    recipe: Any
    _fitted: Fitted | None = None

    def restore(self, folder: Path) -> None:
        self._fitted = Fitted.load(folder)

    @property
    def fitted(self) -> Fitted:
        if self._fitted is None:
            raise RuntimeError("no scales yet: call prepare or restore first")
        return self._fitted

    def parse(self, words: Sequence[str]) -> list[Any]:
        """Return words as inputs: paths of tables with one or several series, or a row of a corpus,
        corpus:shapes-of-series#7.
        """
        return [item for word in words for item in self._items(word if word.startswith(PREFIX) else Path(word))]

    def read(self, one: Any) -> SeriesItem:
        """Read a table with one series: a pathlib.Path, the text of a CSV, columns by name, a DataFrame, an array."""
        if isinstance(one, SeriesItem):
            return one
        found = self._items(one)
        if len(found) > 1:
            names = ", ".join(item.name for item in found[:3])
            raise CallError(f"{self.name(one)} holds {len(found)} series ({names} …): give one at a time")
        return found[0]

    def _items(self, table: Any) -> list[SeriesItem]:
        if isinstance(table, str) and table.startswith(PREFIX):
            return [SeriesItem.of(one_of_corpus(table), self.fitted.scaler)]
        self.refuse_words(table)
        roles = self.fitted.roles
        names = open_table(table, roles=roles)[1]
        roles = replace(roles, label=None, id=roles.id if roles.id in names else None)
        panel = load_panel(table, self.timed(roles, names), self.recipe.data, "test", field="")
        refuse_errors(panel.findings)
        whose = str(table) if isinstance(table, Path) else ""
        named = (replace(one, name="#".join(filter(None, (whose, one.name)))) for one in panel.series)
        return [SeriesItem.of(one, self.fitted.scaler) for one in named]

    def refuse_words(self, table: Any) -> None:
        """Refuse a string without a line end: a service must not read files of its machine."""
        if isinstance(table, str) and "\n" not in table and not table.startswith(PREFIX):
            raise CallError(f"{table!r}: give a table as a pathlib.Path, as the text of a CSV, or as columns by name")

    def timed(self, roles: Any, names: Sequence[str]) -> Any:
        """Return the roles; a table without times is read line by line if no date is needed."""
        if roles.time is None or roles.time in names or self.fitted.dates:
            return roles
        return replace(roles, time=None)

    def name(self, one: Any) -> str:
        if isinstance(one, SeriesItem):
            return one.name or "the given series"
        if isinstance(one, str | Path):
            return "the given text" if "\n" in str(one) else str(one)
        return f"the given {type(one).__name__}"

    def length(self, item: SeriesItem) -> int:
        return len(item.numbers)

    def axis(self, item: SeriesItem, column: int | None = None) -> Axis:
        """Return the axis of steps by time. Below it: `column` in the units of the table. By default all columns: one
        unscaled, several as bands of scaled values, since they have no unit in common.
        """
        step, names = self.fitted.step, labels(item.times, self.fitted.dates)
        size, unit = step.counted()
        if step.unit == "number":
            clock, unit = item.times, self.fitted.roles.time or "line"
        else:
            clock, unit = size * np.arange(len(names)), f"{unit} from {names[0]}"
        until = float(clock[-1]) + size
        firsts = self.firsts(len(names))
        begins = [float(clock[place]) if place < len(names) else until for place in firsts]
        column = 0 if column is None and item.numbers.shape[1] == 1 else column
        signal = item.numbers.T if column is None else self.unscale(item, column)
        shown = [names[min(place, len(names) - 1)] for place in firsts]
        return axis(shown, times=begins, until=until, unit=unit, signal=signal)

    def firsts(self, steps: int) -> list[int]:
        """Return the first step of each vector that `steps` steps become."""
        return list(range(steps))

    def unscale(self, item: SeriesItem, column: int) -> Float[np.ndarray, " S"]:
        """Return a column of the input, in the units of the table."""
        return self.fitted.scaler.column(item.numbers[:, column].astype(np.float64), column)
