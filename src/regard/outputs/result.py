"""What comes back: predictions, scores, and pictures for a report. The same for every job; some add to it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from regard.look.report import Picture


@dataclass(frozen=True)
class Candidate:
    """One output. `score` is what hypotheses are ranked by; `log_probability` is the model's own."""

    text: str
    score: float
    log_probability: float


@dataclass(frozen=True)
class Alignment:
    """Where the model looked: one row a token that was written, one column a token that was read.

    `weights` has every attention of the decoder over the source, by the name of its module: heads × rows × columns.
    """

    rows: list[str]
    columns: list[str]
    weights: dict[str, Any]

    @property
    def mean(self) -> Any:
        """The mean over all heads of all layers, rows × columns."""
        import numpy as np

        return np.mean([weights.mean(axis=0) for weights in self.weights.values()], axis=0)


@dataclass(frozen=True)
class Prediction:
    """The outputs for one input, best first; with `attention=True` also where the best one looked."""

    input: str
    n_best: list[Candidate]
    alignment: Alignment | None = None

    @property
    def text(self) -> str:
        return self.n_best[0].text

    @property
    def score(self) -> float:
        return self.n_best[0].score

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"input": self.input, "text": self.text, "score": self.score}
        found["n_best"] = [asdict(one) for one in self.n_best]
        if self.alignment is not None:
            weights = {name: values.tolist() for name, values in self.alignment.weights.items()}
            found["alignment"] = {"rows": self.alignment.rows, "columns": self.alignment.columns, "weights": weights}
        return found


@dataclass(frozen=True)
class Scores:
    """What `evaluate` found: numbers by name, and what belongs to them (signatures, tables by length or by head).

    `pictures` are for pages; JSON and the terminal have the tables.
    """

    values: dict[str, float]
    notes: dict[str, str] = field(default_factory=dict)
    details: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    pictures: list[Picture] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return {**self.values, **self.notes, **self.details}

    def table(self) -> Any:
        from rich.console import Group
        from rich.table import Table

        main = Table(box=None, show_header=False)
        main.add_column()
        main.add_column(overflow="fold")
        for name, value in self.values.items():
            main.add_row(name, readable(value))
        for name, text in self.notes.items():
            main.add_row(name, text)
        return Group(main, *(_rows(name, rows) for name, rows in self.details.items() if rows))


def readable(value: float) -> str:
    """10,000 of a count, 92.75 of a percentage, 0.02756 of a small number."""
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) < 1 else f"{value:.2f}"


def _rows(title: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))
    return table


@runtime_checkable
class SupportsSave(Protocol):
    """A prediction that is also a picture: `regard predict ... --output FILE.png` draws it."""

    def save(self, path: Path) -> Path:
        """Draw into a .png, .svg or .pdf file."""
        ...


@runtime_checkable
class SupportsSaveTogether(SupportsSave, Protocol):
    """Predictions that are pictures of one kind: `--output` of several is a sheet, FILE.png, or a folder."""

    @property
    def note(self) -> str:
        """What its owner should know of it, or nothing."""
        ...

    def save_with(self, others: Sequence[Any], path: Path) -> Path: ...
