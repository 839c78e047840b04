"""What training, the command line and Python ask of a job. One file in this folder implements it for one job."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from rich.table import Table
from torch import nn

from regard.look import AttentionRecord
from regard.look.records import Head
from regard.metrics.alignment import Gold
from regard.settings.recipe import Recipe

Takes = Literal["text", "image", "audio"]  # what an input is


@dataclass(frozen=True)
class Output:
    """One hypothesis. `score` is what hypotheses are ranked by; `log_probability` is the model's own."""

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
    n_best: list[Output]
    alignment: Alignment | None = None

    @property
    def text(self) -> str:
        return self.n_best[0].text

    @property
    def score(self) -> float:
        return self.n_best[0].score

    def as_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"input": self.input, "text": self.text, "score": self.score}
        found["n_best"] = [asdict(output) for output in self.n_best]
        if self.alignment is not None:
            weights = {name: values.tolist() for name, values in self.alignment.weights.items()}
            found["alignment"] = {"rows": self.alignment.rows, "columns": self.alignment.columns, "weights": weights}
        return found


class Picture(NamedTuple):
    """Something for the report of a run, or the page of its scores. `html` is put in as it is."""

    title: str
    html: str
    note: str = ""


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


def _rows(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))
    return table


@runtime_checkable
class Job(Protocol):
    """One job, on one recipe. Made from a recipe for training, or from a run's folder for prediction."""

    recipe: Recipe

    def under(self, recipe: Recipe) -> "Job":
        """The same job with what was prepared or restored, under a changed recipe."""
        ...

    def check(self, cache: Path) -> Any:
        """Look the data over, before anything is trained on it."""
        ...

    def prepare(self, cache: Path) -> None:
        """Train what the data decides (tokenizers) and store the data in the form that batches are made from."""
        ...

    def save(self, folder: Path) -> None:
        """What prediction needs beside the weights."""
        ...

    def restore(self, folder: Path) -> None:
        """The inverse of `save`."""
        ...

    def build(self) -> nn.Module:
        """The model, untrained; `forward(batch)` gives its loss."""
        ...

    def batches(self) -> Any:
        """The training data, for `training.fit`."""
        ...

    def fingerprint(self) -> str:
        """Changes if the training data does: a run does not go on with other data under the old name."""
        ...

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Quick scores while training."""
        ...

    def sample(self, model: nn.Module) -> str:
        """Something to show while training."""
        ...

    def pictures(self, model: nn.Module) -> list[Picture]:
        """What the report of a run shows beside its curves."""
        ...

    def inputs(self, words: Sequence[str]) -> list[Any]:
        """What words on a command line, or lines of a file, stand for: texts, or pictures and recordings by path."""
        ...

    def predict(self, model: nn.Module, inputs: Sequence[Any], *, prefix: str, attention: bool) -> list[Prediction]: ...

    def score(self, model: nn.Module, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Prediction]: ...

    def evaluate(self, model: nn.Module, *, alignments: bool) -> Scores: ...


@dataclass(frozen=True)
class Wish:
    """What somebody wants to look at. Jobs refuse methods and gold links that they do not have."""

    output: Any = None  # the output that is looked at; None: the model's own
    method: str = "raw"  # one of regard.look.methods.METHODS
    gold: Gold | None = None
    layer: int | None = None  # evidence is about this layer and this head
    head: Head = "mean"
    name: str = ""  # of the model
    prefix: str = ""  # what the model's own output begins with


PLAIN = Wish()


@runtime_checkable
class Looks(Protocol):
    """A job whose model can be asked where it looked.

    `text` is one of what `inputs` gives. The record's columns carry the image or the signal, where there is one
    (`regard.look.axis`). A job that can begin its own output with `wish.prefix` says so by `takes_prefix = True`.
    """

    def look(self, model: nn.Module, text: Any, wish: Wish = PLAIN) -> AttentionRecord: ...


@runtime_checkable
class Drawn(Protocol):
    """A prediction that is also a picture: `regard predict ... --output FILE.png` draws it."""

    def save(self, path: Path) -> Path:
        """Draw into a .png, .svg or .pdf file."""
        ...


@runtime_checkable
class DrawnTogether(Drawn, Protocol):
    """Predictions that are pictures of one kind: `--output` of several is a sheet, FILE.png, or a folder."""

    @property
    def note(self) -> str:
        """What its owner should know of it, or nothing."""
        ...

    def save_with(self, others: Sequence[Any], path: Path) -> Path: ...


@runtime_checkable
class Streams(Protocol):
    """A job that writes text, and tells it while it does."""

    def stream(self, model: nn.Module, text: str, *, prefix: str) -> Iterator[tuple[str, float]]:
        """Pieces of the output as soon as they are certain, each with the log-probability of all that was written."""
        ...


@runtime_checkable
class ReadsDocuments(Protocol):
    """A job whose inputs are questions about a document, which the command line takes from `--document`."""

    def about(self, questions: Sequence[str], document: str) -> list[Any]:
        """Inputs: each of the questions, with the document."""
        ...


@runtime_checkable
class GivesFiles(Protocol):
    """A job whose outputs are no texts. Where a command takes an output (`--target`), it is the name of a file."""

    def outputs(self, words: Sequence[str]) -> list[Any]:
        """What `score` and `look` take, which is never a `str`: nobody reads a file by sending its name as a text."""
        ...


@runtime_checkable
class TakesFiles(Protocol):
    """A job that says what it is given. Where `inputs` are paths of files, the service offers an upload for them."""

    takes: Takes


def takes(job: Any) -> Takes:
    """Texts, unless a job says otherwise. To a job that takes texts, a `str` is never the path of a file."""
    return job.takes if isinstance(job, TakesFiles) else "text"


@runtime_checkable
class Watches(Protocol):
    """A job whose attention can be kept as training goes on."""

    def watch(self, model: nn.Module, most: int) -> list[AttentionRecord]:
        """Where the model looks on a few validation inputs, always the same, when it is forced to write their targets.

        Nothing random happens here: a run that is watched goes the way it would have gone.
        """
        ...
