"""Interface of an export format: it plans, writes, and runs its files with their runtime."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from torch import nn

from regard.api import Run
from regard.catalog import load_object
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError, RegardError, nearest, pip_install
from regard.files.lines import read_text
from regard.job import make_job
from regard.tasks.base import Output


class RefusalError(CallError):
    """This format cannot express this run; the message names the setting."""


class Comparison(NamedTuple):
    """Result of one input in the run and in its export."""

    input: str
    difference: float  # the largest over all logits (or numbers of a vector)
    place: str  # position of this difference
    ours: str
    theirs: str
    tied: bool = False  # the outputs differ, and the model scores both equally


@dataclass(frozen=True)
class ExportRequest:
    """A run to export, and the options of the export.

    dtype       of the weights in the export; see `Format.dtypes`
    attention   whether the export also returns attention weights, if the format supports it
    inputs      example inputs, for a format that traces the model (`Format.traces`)
    """

    run: Run
    dtype: str = "float32"
    attention: bool = False
    inputs: Sequence[Any] = ()


class ExportPlan(ABC):
    """Plan of one run in one format. It is made before anything is written, and holds nothing large."""

    notes: Sequence[str] = ()  # notes for the user, for the card
    announced: str = ""  # message to the user before anything is written
    how: str = ""  # code that loads the export, for the card
    tags: Sequence[str] = ()  # metadata of the card
    library: str = ""
    searches: bool = False  # whether CTC, coverage and other parts of the search are exported, too

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write the export into an empty folder."""

    @abstractmethod
    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        """Compare the results of the run with those of the format's runtime, for each input."""

    def stand_in(self, folder: Path) -> nn.Module | None:
        """Return a module that computes as the export does, with the interface of the run's model, if there is one."""
        return None

    def test_scores(self, folder: Path, output: Output[Any, Any, Any], examples: Any) -> Mapping[str, float] | None:
        """Return the test scores of the export, as `output` computes those of the run; None if there are none."""
        model = self.stand_in(folder)
        return None if model is None else output.test_scores(model, examples, False).values


class Format(ABC):
    name: ClassVar[str]
    dtypes: ClassVar[tuple[str, ...]] = ("float32",)  # of weights; the first is the default
    writes: ClassVar[tuple[str, ...]] = ()  # modules that writing needs
    traces: ClassVar[bool] = False  # whether the export needs example inputs, even without a check
    gives_attention: ClassVar[bool] = False
    runs: ClassVar[tuple[str, ...]] = ()  # modules of the runtime, which the check needs

    @abstractmethod
    def plan(self, request: ExportRequest) -> ExportPlan:
        """Return the plan of an export; raise a `RefusalError` if the format cannot express the run."""

    def require(self, *, check: bool) -> None:
        """Raise a `CallError` if a package that the export needs is missing."""
        for modules, then in ((self.writes, ""), (self.runs if check else (), "; or export with --no-check")):
            missing = [name for name in modules if find_spec(name) is None]
            if missing:
                names = ", ".join(missing)
                raise CallError(f"export to {self.name} needs {names}: {pip_install('regard[export]')}{then}")

    def require_dtype(self, dtype: str) -> None:
        if dtype not in self.dtypes:
            raise CallError(f"--dtype {dtype}: export to {self.name} has {', '.join(self.dtypes)}")


def misfits(settings: Any, section: str = "model", **allowed: Sequence[Any]) -> list[str]:
    """Return the settings whose value is not allowed, in the form of a recipe."""
    return [
        f"{section}.{name}={_format_value(getattr(settings, name))} (only {' or '.join(map(_format_value, values))})"
        for name, values in allowed.items()
        if getattr(settings, name) not in values
    ]


def _format_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


# Inputs of the check: some of the run's validation data, or the lines of a file.

MOST = 32


def check_inputs(run: Run, file: Path | None) -> list[Any]:
    """Return inputs for `predict`, none of them empty."""
    given = (
        _of_validation(run)
        if file is None
        else run.job.input.parse([line for line in read_text(str(file)).split("\n") if line.strip()])
    )
    full = [one for one in given if run.job.input.length(run.job.input.read(one))]
    if not full:
        raise CallError(
            f"{file or 'the validation part'}: no input to check the export with; "
            "give --check-inputs FILE, or --no-check"
        )
    return full[:MOST]


def _of_validation(run: Run) -> list[Any]:
    data = make_job(run.recipe)  # a new job, so that the run's job keeps its state
    try:
        data.restore(run.folder)
        data.prepare(run.folder / "cache")
        return [example.input for example in data.output.sample_examples(data.splits["valid"], MOST)]
    except (RegardError, OSError) as problem:
        raise CallError(
            f"the validation part of {run.folder} cannot be read ({problem}): give inputs with "
            "--check-inputs FILE, or export with --no-check"
        ) from None


# A vocabulary as a list with an entry for each row of the weights, even if the tokenizer leaves ids unused.


def entries(tokenizer: Tokenizer, rows: int) -> list[str]:
    """Return the entry of each id. An unused id is called `<unused_7>`."""
    found = [tokenizer.entry(index) for index in range(rows)]
    if tokenizer.size > rows:
        raise CallError(f"{tokenizer.size} tokens do not fit weights for {rows}")
    known = set(found)
    unused = (name for name in (f"<unused_{number}>" for number in range(2 * rows)) if name not in known)
    return [next(unused) if entry is None else entry for entry in found]


# All export formats. A format is one file (or folder) in this package, and one row here.

#: Values of `--to`, and where their classes are. A class is loaded when it is requested.
FORMATS: dict[str, str] = {
    "hf": "regard.exporters.hf.format:HuggingFace",
    "peft": "regard.exporters.peft:Peft",
    "ctranslate2": "regard.exporters.ctranslate2:CTranslate2",
    "onnx": "regard.exporters.onnx.format:Onnx",
    "gguf": "regard.exporters.gguf:Gguf",
    "html": "regard.exporters.html.format:Html",
}


def format_of(name: str) -> Format:
    if name not in FORMATS:
        raise CallError(f"unknown export format {name!r}{nearest(name, FORMATS)}")
    return load_object(FORMATS[name])()


def expressed_by(request: ExportRequest) -> list[str]:
    """Return the formats that can express this run."""

    def takes(name: str) -> bool:
        try:
            format_of(name).plan(request)
        except RefusalError:
            return False
        return True

    return [name for name in FORMATS if takes(name)]
