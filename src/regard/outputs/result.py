"""Results: predictions, scores, and figures for a report. All jobs share them; some jobs add fields."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from regard.look.report import Picture


@dataclass(frozen=True)
class Candidate:
    """One output with two numbers, which mean the same whether it was searched, sampled or given:

    log_probability   log p(output | input) by the model: the natural logarithm, summed over all tokens, the end
                      included; None where there is no such thing (vectors, numbers)
    score             what outputs are ranked by, the largest first. Of a text that a decoder writes:
                      log_probability / length ** decoding.length_penalty, and the other scores of the search
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
    """Attention over the input: one row for each generated token, one column for each input token.

    `weights` holds every attention of the decoder over the source by module name: heads × rows × columns.
    """

    rows: list[str]
    columns: list[str]
    weights: dict[str, Any]

    @property
    def mean(self) -> Any:
        """Return the mean over all heads of all layers, rows × columns."""
        import numpy as np

        return np.mean([weights.mean(axis=0) for weights in self.weights.values()], axis=0)


@dataclass(frozen=True)
class Prediction:
    """The outputs for one input, best first; with `attention=True`, also the alignment of the best one."""

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
        """Return a dict for JSON: the fields of the best output and of all outputs, the alignment, and fields of the
        job.
        """
        found: dict[str, Any] = {"input": self.input, **asdict(self.n_best[0])}
        found["n_best"] = [asdict(one) for one in self.n_best]
        own = [one.name for one in fields(self) if one.name not in ("input", "n_best", "alignment")]
        found |= {name: _plain(getattr(self, name)) for name in own}
        return found | ({} if self.alignment is None else {"alignment": _plain(asdict(self.alignment))})


def _plain(value: Any) -> Any:
    """Convert arrays and tuples to lists, and objects with fields to mappings."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


@dataclass(frozen=True, kw_only=True)
class Labeled(Prediction):
    """The predicted labels, and the probability of every label, the most probable first."""

    labels: list[str]
    probabilities: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Vector(Prediction):
    """The vector of one text (an array); `text` holds its numbers, separated by spaces."""

    vector: Any

    @classmethod
    def of(cls, text: str, vector: Any) -> "Vector":
        return cls(text, [Candidate(" ".join(f"{value:.6g}" for value in vector))], vector=vector)


@dataclass(frozen=True)
class Scores:
    """Results of `evaluate`: numbers by name, and what belongs to them (signatures, tables by length or by head).

    `pictures` are for pages; JSON and the terminal show the tables. `percent` names the values in percent.
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
    """Format a number: 10,000 for a count, 92.75 for a percentage, 0.02756 for a small number."""
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
    """The final score of training. `of_hits`: it is the percentage of correct examples."""

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
        """Return the percentage of correct examples; one number (or bool) for each example."""
        import numpy as np

        return cls(np.array(hits, float).reshape(-1, 1), lambda table: 100 * float(table.mean()))

    @classmethod
    def of_shares(cls, parts: Any, *, percent: bool = False) -> "Tally":
        """Return the sum of the first column over that of the second, such as an error rate or bits per byte.
        `parts`: two numbers for each example.
        """
        import numpy as np

        def value(table: Any) -> float:
            above, below = table.sum(0)
            return (100 if percent else 1) * float(above) / float(below) if below else 0.0

        return cls(np.array(parts, float).reshape(-1, 2), value)


@runtime_checkable
class SupportsSave(Protocol):
    """A prediction that can be drawn: `regard predict ... --output FILE.png` saves it."""

    def save(self, path: Path) -> Path:
        """Save as a .png, .svg or .pdf file."""
        ...


@runtime_checkable
class SupportsSaveTogether(SupportsSave, Protocol):
    """Predictions that can be saved together: `--output` of several is a sheet, FILE.png, or a folder."""

    @property
    def note(self) -> str:
        """Return a note for the user, or an empty text."""
        ...

    def save_with(self, others: Sequence[Any], path: Path) -> Path: ...
