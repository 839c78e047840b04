"""Results: predictions, scores, and figures for a report. All jobs share them; some jobs add fields."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from regard.data.labels import Spread
from regard.errors import CallError
from regard.look.records import AttentionRecord, Head
from regard.look.svg import ReportPicture
from regard.metrics.alignment import Gold
from regard.settings.recipe import Recipe
from regard.work import before_step


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
class LabeledPrediction(Prediction):
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
    pictures: list[ReportPicture] = field(default_factory=list)
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


# Errors for unsupported arguments, shared by runs and exported runs. Needs no torch.


def refuse(job: str, output: Any, *, prefix: str = "", attention: bool = False, gold: Gold | None = None) -> None:
    """Raise if an argument is not supported. `output`: an `Output`, or one of an export, with flags for what it
    supports.
    """
    what = f"the job {job!r}"
    if prefix and not output.takes_prefix:
        raise CallError(f"prefix={prefix!r}: {what} does not support a prefix; remove it")
    if attention and not output.gives_attention:
        raise CallError(f"{what} does not support attention=True; use `look`")
    if gold is not None and not output.takes_gold:
        raise CallError(f"gold links join words of a source and its translation; {what} has no gold links; remove gold")


def refuse_both(prefix: str, output: Any) -> None:
    if prefix and output is not None:
        raise CallError("give the whole output or a prefix of it, not both")


def require_pairs(inputs: int, outputs: int) -> None:
    if inputs != outputs:
        raise CallError(f"{inputs} inputs and {outputs} outputs: each input needs its output")


def sampling_settings(job: str, known: dict[str, Any], sample: bool | None) -> dict[str, Any]:
    """Return the decoding settings for `sample`; `known` are those of the job."""
    if sample and "temperature" not in known:
        raise CallError(f"sample=True: the job {job!r} does not support sampling; remove sample")
    return {"sample": sample} if sample is not None and "sample" in known else {}


# Options of `look`, the same for a run and for an exported run. Needs no torch.

Overrides = Iterable[str] | Mapping[str, Any]


@dataclass(frozen=True)
class LookOptions:
    """The options of one look. An output raises an error for options that it does not support."""

    output: Any = None  # the output to explain; None: the predicted one
    method: str = "raw"  # one of regard.look.methods.METHODS
    gold: Gold | None = None
    layer: int | None = None  # layer and head that evidence is computed for
    head: Head = "mean"
    name: str = ""  # of the model
    prefix: str = ""  # forced prefix of the predicted output
    instead: str | None = None  # contrast word: explain the lead of the output over it
    sample: bool = False  # sample the predicted output, by the decoding settings, where supported
    evidence: bool = False  # whether to compute the evidence of the record's card, which runs the model many times


class Looks(ABC):
    folder: Any
    recipe: Recipe

    def look(
        self,
        text: Any,
        overrides: Overrides = (),
        *,
        output: Any = None,
        method: str = "raw",
        gold: Gold | None = None,
        layer: int | None = None,
        head: Head = "mean",
        prefix: str = "",
        without: Sequence[str] = (),
        evidence: bool = False,
        instead: str | None = None,
        sample: bool | None = None,
        **decoding: Any,
    ) -> AttentionRecord:
        """Return the attention record of the predicted output for a text, or of `output` if given.

        `method`: one of `regard.look.methods.METHODS`. `evidence`: also measure whether the model needs the inputs it
        attends to (comprehensiveness, sufficiency), with many model runs; `layer` and `head` select the weights.
        `n_best=3` adds the other hypotheses as `record.beams`. `prefix` is a forced prefix of the output.
        `without=["cross.2.3"]` masks head 3 of layer 2 of the attention over the source.
        `instead="dog"` explains each word in contrast to this one, for methods that score the output.
        `sample=True` samples the output (`temperature=0.8, top_k=20, top_p=0.9, seed=1`).
        """
        refuse_both(prefix, output)
        drawing = sampling_settings(self.recipe.job, self.decoding_defaults(), sample)
        options = LookOptions(
            output, method, gold, layer, head, self.folder.name, prefix, instead, bool(sample), evidence
        )
        return self._make_record(text, overrides, options, without, {**decoding, **drawing})

    @abstractmethod
    def _make_record(
        self, text: Any, overrides: Overrides, options: LookOptions, without: Sequence[str], decoding: Mapping[str, Any]
    ) -> AttentionRecord:
        """Return the record; `decoding` holds changed decoding settings."""

    def decoding_defaults(self) -> dict[str, Any]:
        """Return the decoding settings of the run by name; empty if it generates no text."""
        return self.recipe.model_dump(mode="json").get("decoding", {})


# Batches of inputs of similar length, within a token budget.

T = TypeVar("T")
MOST_WINDOWS = 32  # maximum windows of one input
AT_ONCE = 4096  # items kept in memory


def in_groups(
    numbers: Iterable[int], lengths: Sequence[int], tokens: int, work: Callable[[list[int]], Sequence[T]]
) -> Iterator[tuple[int, T]]:
    """Yield (number, result) of `work` on groups of numbers of similar length, each of about `tokens` tokens."""
    order = sorted(numbers, key=lambda number: -lengths[number])
    start = 0
    while start < len(order):  # the longest comes first, so its length is the padded length
        group = order[start : start + max(1, tokens // (lengths[order[start]] + 1))]
        before_step(len(group) * (lengths[group[0]] + 1))
        yield from zip(group, work(group), strict=True)
        start += len(group)


def group_by_length(lengths: Sequence[int], tokens: int, work: Callable[[list[int]], Sequence[T]]) -> list[T]:
    """Return the results of `in_groups` for all numbers, in their order."""
    found = dict(in_groups(range(len(lengths)), lengths, tokens, work))
    return [found[number] for number in range(len(lengths))]


def mean_of_windows(input: Any, inputs: Iterable[Any], ask: Callable[[list[Any]], Sequence[Any]]) -> list[Any]:
    """Return a row for each input of any length: the mean of the results of `ask` over its windows (`Input.windows`).

    A few inputs at a time are kept in memory; a very long one is limited to MOST_WINDOWS evenly spread windows.
    """
    found: list[Any] = []
    for some in in_budget((Spread.of(input.windows(one), MOST_WINDOWS) for one in inputs), len, AT_ONCE):
        rows = iter(ask([item for windows in some for item in windows]))
        of_each = ([next(rows) for _ in windows] for windows in some)
        found += [own[0] if len(own) == 1 else sum(own[1:], own[0]) / len(own) for own in of_each]
    return found


def in_budget(items: Iterable[T], cost: Callable[[T], int], budget: int) -> Iterator[list[T]]:
    """Yield lists of items in their order, each as long as the budget allows."""
    some: list[T] = []
    for item in items:
        some.append(item)
        if sum(map(cost, some)) > budget:
            yield some
            some = []
    if some:
        yield some
