"""What training, the command line and Python ask of a job. One file in this folder implements it for one job."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from torch import nn

from regard.errors import CallError
from regard.look import AttentionRecord
from regard.outputs.base import LookOptions
from regard.outputs.result import Candidate as Output
from regard.outputs.result import Picture, Prediction, Scores
from regard.settings.recipe import Recipe

Takes = Literal["text", "image", "audio"]  # what an input is


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


Wish = LookOptions
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


class LegacyJob:
    """A job that was not brought over to inputs and outputs yet, by the face of `regard.job.Job`."""

    def __init__(self, old: Any, model: Any = None) -> None:
        self.old, self._model = old, model
        self.recipe = old.recipe
        self.output = self
        self.input = self
        self.kind = {"audio": "sound"}.get(takes(old), takes(old))
        self.takes_prefix = getattr(old, "takes_prefix", False)
        self.writes_text = isinstance(old, Streams)
        self.takes_files = isinstance(old, GivesFiles)
        self.takes_prompt = isinstance(old, Streams)

    @property
    def model(self) -> Any:
        return self._model

    def bound(self, model: Any) -> "LegacyJob":
        return LegacyJob(self.old, model)

    def with_recipe(self, recipe: Recipe) -> "LegacyJob":
        return LegacyJob(self.old.under(recipe), self._model)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.old, name)

    def validate(self) -> Any:
        return self.old.validate(self._model)

    def sample(self) -> str:
        return self.old.sample(self._model)

    def watch(self, most: int) -> Any:
        return self.old.watch(self._model, most) if isinstance(self.old, Watches) else []

    def pictures(self) -> Any:
        return self.old.pictures(self._model)

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> Any:
        return self.old.predict(self._model, inputs, prefix=prefix, attention=attention)

    def stream(self, one: Any, tell: Any, *, prefix: str = "") -> Any:
        said, total = "", 0.0
        for piece, total in self.old.stream(self._model, one, prefix=prefix):  # noqa: B007
            said += piece
            if piece:
                tell(piece, said)
        return Prediction(one, [Output(said, total, total)])

    def score(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        return self.old.score(self._model, inputs, outputs)

    def look(self, one: Any, options: Any = PLAIN) -> Any:
        return self.old.look(self._model, one, options)

    def evaluate(self, *, alignments: bool = False) -> Any:
        return self.old.evaluate(self._model, alignments=alignments)

    def parse(self, words: Sequence[str]) -> list[Any]:
        return self.old.inputs(words)

    def about(self, words: Sequence[str], document: str) -> list[Any]:
        if not isinstance(self.old, ReadsDocuments):
            raise CallError(f"--document is for questions, and not for the job {self.recipe.job}")
        return self.old.about(words, document)

    def given(self, words: Sequence[str]) -> list[Any]:
        return self.old.outputs(words) if isinstance(self.old, GivesFiles) else list(words)
