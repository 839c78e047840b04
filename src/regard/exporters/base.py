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
    """One input, through the run and through its export."""

    input: str
    difference: float  # the largest of all logits (or numbers of a vector)
    place: str  # where it is
    ours: str
    theirs: str
    tied: bool = False  # the outputs differ, and the model finds both equally good


@dataclass(frozen=True)
class ExportRequest:
    """What is to be exported, and how.

    dtype       of the weights in the export; a form says which it has
    attention   whether the export also gives where the model looked, if the form can
    inputs      some inputs, for a form that has to see some (`Format.traces`)
    """

    run: Run
    dtype: str = "float32"
    attention: bool = False
    inputs: Sequence[Any] = ()


class ExportPlan(ABC):
    """How one run is expressed in one form. Made before anything is written; nothing in it is large."""

    notes: Sequence[str] = ()  # what the user should know, for the card
    announced: str = ""  # what the user is told before anything is written
    how: str = ""  # code that loads the export, for the card
    tags: Sequence[str] = ()  # metadata of the card
    library: str = ""
    searches: bool = False  # whether what helps a search (CTC, coverage, ...) leaves with the run

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Into an empty folder."""

    @abstractmethod
    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        """Each of the inputs, through the run and through the runtime that the form is for."""

    def stand_in(self, folder: Path) -> nn.Module | None:
        """The run's model as the export computes it, if it can be asked as a model of ours is."""
        return None

    def test_scores(self, folder: Path, output: Output[Any, Any, Any], examples: Any) -> Mapping[str, float] | None:
        """Of the export, as `output` has those of the run; None: it cannot be asked for them."""
        model = self.stand_in(folder)
        return None if model is None else output.test_scores(model, examples, False).values


class Format(ABC):
    name: ClassVar[str]
    dtypes: ClassVar[tuple[str, ...]] = ("float32",)  # of weights; the first is the one by default
    writes: ClassVar[tuple[str, ...]] = ()  # modules that writing needs
    traces: ClassVar[bool] = False  # whether it has to see inputs, also where nothing is checked
    gives_attention: ClassVar[bool] = False
    runs: ClassVar[tuple[str, ...]] = ()  # modules of the runtime, which the check needs

    @abstractmethod
    def plan(self, request: ExportRequest) -> ExportPlan:
        """Raises a `RefusalError` where the form cannot express the run."""

    def require(self, *, check: bool) -> None:
        """The packages that are needed are there."""
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


# The inputs that an export is checked with: some of the validation part of the run, or lines of a file.

MOST = 32


def check_inputs(run: Run, file: Path | None) -> list[Any]:
    """As `predict` takes them; nothing among them is empty."""
    given = (
        _of_validation(run)
        if file is None
        else run.job.input.parse([line for line in read_text(str(file)).split("\n") if line.strip()])
    )
    full = [one for one in given if run.job.input.length(run.job.input.read(one))]
    if not full:
        raise CallError(f"{file or 'the validation part'}: there is no input to check the export with")
    return full[:MOST]


def _of_validation(run: Run) -> list[Any]:
    data = make_job(run.recipe)  # a job of its own: that of the run keeps what it has learned
    try:
        data.restore(run.folder)
        data.prepare(run.folder / "cache")
        return [example.input for example in data.output.sample_examples(data.splits["valid"], MOST)]
    except (RegardError, OSError) as problem:
        raise CallError(
            f"the validation part of {run.folder} cannot be read ({problem}): give inputs of your own, "
            "--check-inputs FILE, or export without a check, --no-check"
        ) from None


# A vocabulary as a list that has an entry for each row of the weights, also where the tokenizer has a hole.


def entries(tokenizer: Tokenizer, rows: int) -> list[str]:
    """Return the entry of each id. An unused id is called `<unused_7>`."""
    found = [tokenizer.entry(index) for index in range(rows)]
    if tokenizer.size > rows:
        raise CallError(f"{tokenizer.size} tokens do not fit weights for {rows}")
    known = set(found)
    unused = (name for name in (f"<unused_{number}>" for number in range(2 * rows)) if name not in known)
    return [next(unused) if entry is None else entry for entry in found]


# Every form that a run can leave in. A form is one file (or folder) beside this one, and one row here.

#: By the name that `--to` gives: where the class is. It is loaded when it is asked for.
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
        raise CallError(f"there is no export to {name!r}{nearest(name, FORMATS)}")
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
