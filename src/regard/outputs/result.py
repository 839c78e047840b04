"""What comes back: predictions, scores, and pictures for a report. The same for every job; some add to it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from regard.look.report import Picture


@dataclass(frozen=True)
class Candidate:
    """One output, with two numbers that mean the same however it came about (searched for, drawn, or given):

    log_probability   log p(output | input) by the model: the natural logarithm, summed over all tokens, the end
                      included; None where there is no such thing (vectors, numbers)
    score             what outputs are ranked by, the largest first. Of a text that a decoder writes:
                      log_probability / length ** decoding.length_penalty, and what else the search was told to heed
                      (coverage, CTC, a language model). Of a label: its probability. Where vectors are compared: a
                      cosine. Else log_probability itself
    """

    text: str
    log_probability: float | None = None
    score: float | None = None

    def __post_init__(self) -> None:
        if self.score is None:
            object.__setattr__(self, "score", self.log_probability)


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
    def score(self) -> float | None:
        return self.n_best[0].score

    @property
    def log_probability(self) -> float | None:
        return self.n_best[0].log_probability

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the fields of the best output and of all, where the model looked, and what a job adds to them."""
        found: dict[str, Any] = {"input": self.input, **asdict(self.n_best[0])}
        found["n_best"] = [asdict(one) for one in self.n_best]
        own = [one.name for one in fields(self) if one.name not in ("input", "n_best", "alignment")]
        found |= {name: _plain(getattr(self, name)) for name in own}
        return found | ({} if self.alignment is None else {"alignment": _plain(asdict(self.alignment))})


def _plain(value: Any) -> Any:
    """Lists for arrays and tuples, and mappings for what has fields."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


@dataclass(frozen=True, kw_only=True)
class Labeled(Prediction):
    """The labels that were given, and the probability of every label, the most probable first."""

    labels: list[str]
    probabilities: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Vector(Prediction):
    """The vector of one text (an array); `text` has its numbers, separated by spaces."""

    vector: Any

    @classmethod
    def of(cls, text: str, vector: Any) -> "Vector":
        return cls(text, [Candidate(" ".join(f"{value:.6g}" for value in vector))], vector=vector)


@dataclass(frozen=True)
class Scores:
    """What `evaluate` found: numbers by name, and what belongs to them (signatures, tables by length or by head).

    `pictures` are for pages; JSON and the terminal have the tables. `percent` names the values that are of a hundred.
    """

    values: dict[str, float]
    notes: dict[str, str] = field(default_factory=dict)
    details: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    pictures: list[Picture] = field(default_factory=list)
    percent: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**self.values, **self.notes, **self.details}

    def table(self) -> Any:
        from rich.console import Group
        from rich.table import Table

        main = Table(box=None, show_header=False, title="test scores", title_justify="left")
        main.add_column()
        main.add_column(overflow="fold")
        for name, value in self.values.items():
            main.add_row(name, readable(value) + (" %" if name in self.percent else ""))
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


@dataclass(frozen=True)
class Measure:
    """The score that ends a training. `of_hits`: it is the share of examples that are right, in percent."""

    name: str
    higher_is_better: bool = True
    percent: bool = True
    of_hits: bool = False


@dataclass(frozen=True)
class Tally:
    """What each test example adds to a score, a row each: `value` of some rows is the score of these examples."""

    table: Any  # N × K numbers
    value: Callable[[Any], float]

    @classmethod
    def of_hits(cls, hits: Any) -> "Tally":
        """The share of what is right, in percent; a number (or yes, no) of each example."""
        import numpy as np

        return cls(np.array(hits, float).reshape(-1, 1), lambda table: 100 * float(table.mean()))

    @classmethod
    def of_shares(cls, parts: Any, *, percent: bool = False) -> "Tally":
        """The sum of a first column over that of a second, such as an error rate, or bits per byte. `parts`: two
        numbers of each example."""
        import numpy as np

        def value(table: Any) -> float:
            above, below = table.sum(0)
            return (100 if percent else 1) * float(above) / float(below) if below else 0.0

        return cls(np.array(parts, float).reshape(-1, 2), value)


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
