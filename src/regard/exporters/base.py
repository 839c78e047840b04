"""Interface of an export format: it plans, writes, and runs its files with their runtime."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from torch import nn

from regard.api import Run
from regard.errors import CallError, pip_install
from regard.outputs.base import Output


class RefusalError(CallError):
    """This format cannot express this run; the message names the setting."""


class Compared(NamedTuple):
    """One input, through the run and through its export."""

    input: str
    difference: float  # the largest of all logits (or numbers of a vector)
    place: str  # where it is
    ours: str
    theirs: str
    tied: bool = False  # the outputs differ, and the model finds both equally good


@dataclass(frozen=True)
class Wish:
    """What is to be exported, and how.

    dtype       of the weights in the export; a form says which it has
    attention   whether the export also gives where the model looked, if the form can
    inputs      some inputs, for a form that has to see some (`Format.traces`)
    """

    run: Run
    dtype: str = "float32"
    attention: bool = False
    inputs: Sequence[Any] = ()


class Plan(ABC):
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
    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Compared]:
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
    def plan(self, wish: Wish) -> Plan:
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
        f"{section}.{name}={_written(getattr(settings, name))} (only {' or '.join(map(_written, values))})"
        for name, values in allowed.items()
        if getattr(settings, name) not in values
    ]


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
