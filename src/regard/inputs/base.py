"""What comes in. Each kind is a folder beside this file, and an `Input` in it; it knows no output and no other input.

    the user's files → examples on disk → what an encoder reads → (the encoder) → Memory
    one's own input  → an item          → what an encoder reads → (the encoder) → Memory

An *item* is one input in the form that a model of this kind is given it (token ids, pixels, features of sound): what
`read` makes, and nobody else looks into.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import nn

from regard.data.check_report import CheckReport, figures_of
from regard.data.examples import Example
from regard.data.files import places
from regard.data.prepare import Steps
from regard.data.tables import Role
from regard.data.vocabulary import Targets, Vocabulary
from regard.errors import CallError
from regard.inputs.column import Column, ListedExamples, ReadColumn
from regard.layers.pooling import Pooling
from regard.look.axis import Axis
from regard.settings.decisions import Decision
from regard.settings.recipe import Recipe

POINTS = 16  # of the course of a sequence that baselines read


class Input(ABC):
    """`data` and `model` are the sections of a recipe. `prepare` (training) or `restore` (prediction) comes first."""

    kind: ClassVar[str]  # text, image, sound, table
    ahead: ClassVar[bool] = False  # whether making a batch is worth a thread of its own
    array_dims: ClassVar[int] = 0  # most dimensions of an array, or a tensor, that is one input
    takes_files: ClassVar[bool] = False  # whether a word on a command line names a file, or a folder of them

    def __init__(self, recipe: Recipe, section: Callable[[Any], Any] = lambda recipe: recipe.model) -> None:
        """`section`: the part of a recipe that has the settings of the encoder."""
        self.recipe, self._section = recipe, section

    @property
    def data(self) -> Any:
        return self.recipe.data  # pyright: ignore[reportAttributeAccessIssue] (every recipe of a job has it)

    @property
    def settings(self) -> Any:
        """Of the encoder, as the recipe has them."""
        return self._section(self.recipe)

    def with_recipe(self, recipe: Recipe) -> Any:
        """The same with what was prepared or restored, under a changed recipe."""
        changed = copy(self)
        changed.recipe = recipe
        return changed

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each thing that one input is made of: for each, the service offers a field or an upload."""
        return (self.kind,)

    # ------------------------------------------------------------------------------------------------------- the files
    @abstractmethod
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Any]:
        """The user's files, in a form that training reads quickly: train and valid, and with `strict=False` test, too.

        What is made of pairs of an input and an output are `Examples`.

        `strict` refuses data with more bad lines than `data.max_bad`; without it they are counted, for `check`.
        """

    def decided(self) -> list[Decision]:
        """What a few examples decide of the data section, where a recipe leaves it to them (auto)."""
        return []

    def decided_by(self, some: Iterable[Any]) -> list[Decision]:
        """The same, by a few values of a column beside another input's."""
        return []

    def target_texts(self) -> list[str]:
        """Of some examples, what is to be said of them."""
        return []

    def listed(self, name: str, examples: Sequence[Example], vocabulary: Vocabulary) -> ListedExamples:
        """Examples of `prepare` that stay in memory: `name` is where they are from, every text is a target."""
        values = {str(number): example.input for number, example in enumerate(examples)}
        column = ReadColumn(values, self.read, self.length, self.collate)
        return ListedExamples(name, column, examples, vocabulary)

    def check(self, splits: dict[Role, Any], vocabulary: Vocabulary) -> CheckReport:
        """What is wrong with data that was prepared with `strict=False`: by default, figures and no finding."""
        return figures_of(splits, vocabulary.size)

    @abstractmethod
    def test(self) -> tuple[Any, str]:
        """All test examples (a list of `Example`, where there are such), and a note on what could not be used. It is
        asked where there is `has_test_data`."""

    @property
    def has_test_data(self) -> bool:
        """Whether `test` has something to read; nothing is read to tell."""
        return "test" in places(self.data) or self.data.test_share > 0

    @property
    def has_test_part(self) -> bool:
        """Whether there is test data apart from the validation data."""
        return self.has_test_data

    @property
    def test_name(self) -> str:
        """Which data `test` gives."""
        data = self.data
        if "test" in places(data):
            return f"test data, {places(data)['test']}"
        share = f"data.test_share={data.test_share:g}" if hasattr(data, "test_share") else "data.split"
        return f"test data, held out of {data.train} by {share}"

    def no_test_data(self) -> CallError:
        return CallError("the recipe has no test data: give data.test=FILE, or train with data.test_share=0.1")

    def save(self, folder: Path) -> None:  # noqa: B027 (many have nothing to save)
        """What `read` needs beside the recipe."""

    def restore(self, folder: Path) -> None:  # noqa: B027
        """The inverse of `save`."""

    # ---------------------------------------------------------------------------------- beside another: inputs/joint.py
    def in_list(self, file: Path, cells: Sequence[str]) -> list[Any]:
        """What the cells of a list stand for, as a person would give it: by default, what is written there."""
        return list(cells)

    def column(self, values: Mapping[str, Any], role: Role, steps: Steps) -> Column:
        """One column of a list, its values by their names. That of the training data comes first, and teaches what
        `read` has to know."""
        return ReadColumn(values, self.read, self.length, self.collate)

    # ---------------------------------------------------------------------------------------------------- one's own
    def parse(self, words: Sequence[str]) -> list[Any]:
        """What words on a command line, or lines of a file, stand for: texts, or pictures and recordings by path."""
        return list(words)

    def word(self, one: Any) -> str:
        """An input of the examples as `parse` takes it, where it can be said in a word."""
        return self.name(one)

    def subject(self, file: str) -> Any:
        """What words can be about (`about`): what is in this file, or on standard input, which `-` stands for."""
        raise CallError("--about is for questions, and this model takes none")

    def about(self, words: Sequence[str], subject: Any) -> list[Any]:
        """Inputs: each of the words with one thing that they are about."""
        return [(subject, word) for word in words]

    def is_one(self, given: Any) -> bool:
        """Whether what somebody gives in Python is one input, and not several: a list, or what else can be gone
        through. A text and a table are one, and so is an array of up to `array_dims` dimensions."""
        if isinstance(given, str | bytes | Mapping | Path) or hasattr(given, "_fields"):  # a named tuple
            return True
        return not isinstance(given, Iterable) or 0 < getattr(given, "ndim", 0) <= self.array_dims

    def readable(self, inputs: Sequence[Any]) -> tuple[list[Any], list[str]]:
        """Those of the inputs that can be read, and a sentence on each of the others."""
        good, problems = [], []
        for one in inputs:
            try:
                for _ in self.windows(one):
                    pass
                good.append(one)
            except CallError as problem:
                problems.append(str(problem))
        return good, problems

    @abstractmethod
    def read(self, one: Any) -> Any:
        """The item of one input."""

    def windows(self, one: Any) -> Iterable[Any]:
        """The items of an input of any length: one, or several if it is longer than the model reads at once."""
        yield self.read(one)

    def is_overlong(self, one: Any) -> bool:
        """Whether an input is longer than `limit`: it is read in windows, or cut, and scores say how many are."""
        return False

    @property
    def limit(self) -> str:
        """What inputs may be longer than, and what is done to them then: "data.max_length=80 tokens: they are cut"."""
        return ""

    def name(self, one: Any) -> str:
        """What a prediction says that it is about."""
        return str(one)

    def plain(self, one: Any) -> Sequence[str] | NDArray[Any]:
        """What a simple baseline reads of an input: its texts, or as many numbers as of every other input."""
        raise CallError("this input has no plain form")

    def heard(self, one: Any) -> bytes | None:
        """A recording as WAV, to listen to; None of what is no sound."""
        return None

    @abstractmethod
    def length(self, item: Any) -> int:
        """How many vectors it becomes: inputs of like length are put together. 0: there is nothing in it."""

    @abstractmethod
    def collate(self, items: Sequence[Any]) -> Any:
        """What an encoder reads of several items."""

    # ------------------------------------------------------------------------------------------------------- the model
    @property
    def shared_vocabulary(self) -> Any:
        """The tokenizer of the input, where targets are written by the same one."""
        return None

    @abstractmethod
    def encoder(self, decoder: Any = None) -> nn.Module:
        """Reads what `collate` makes into a `Memory`; has `memory_width` and `summary_width`.

        `decoder`: the settings of what will attend to the memory, step by step, if anything does.
        """

    def pooling(self, width: int) -> nn.Module:
        """Makes one vector of the encoder's memory, whose vectors have this width: by default the encoder's summary."""
        return Pooling("summary")

    def noise(self) -> nn.Module | None:
        """What training does to what `collate` makes, before the encoder reads it."""
        return None

    @property
    def frozen(self) -> bool:
        """Whether the encoder stays as it is, and only what stands above it learns."""
        return False

    # --------------------------------------------------------------------------------------------------------- looking
    def inside(self, item: Any) -> Any:
        """The item as the encoder's own attention sees it, where that is over something else than its memory: with
        the class token of a Vision Transformer, with the positions of an early stage of a CNN."""
        return item

    def afresh(self, item: Any) -> Any:
        """The item as it came in, without what was computed of it before: all that looks into a model begins there."""
        return item

    @abstractmethod
    def axis(self, item: Any) -> Axis:
        """The vectors of the memory as a picture names them: words, regions, seconds, days."""

    def parts(self, item: Any) -> list[int]:
        """The places on the axis of what can be left out: by default all that is not special."""
        return self.axis(item).real()

    @abstractmethod
    def without(self, item: Any, parts: Collection[int]) -> Any:
        """The item without some of its parts, numbered from 0 in the order of `parts`."""

    def vectors(self, encoder: nn.Module) -> nn.Module | None:
        """The module whose output are the vectors that the encoder is given, for gradients by them; None: there is
        no such module."""
        return None

    def gather(self, item: Any, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        """What `vectors` gave, times its gradient, summed over each part: by default, a part is one vector."""
        return products[0].sum(-1)[:, self.parts(item)]


def summary_of(steps: Float[np.ndarray, "S C"]) -> Float[np.ndarray, " D"]:
    """Of every column: the means of equal stretches, its mean, deviation, least and greatest value."""
    if not len(steps):
        return np.zeros((POINTS + 4) * steps.shape[1])
    ends = np.linspace(0, len(steps), POINTS + 1)
    stretches = [steps[int(a) : max(int(a) + 1, int(b))] for a, b in pairwise(ends)]
    course = [stretch.mean(0) for stretch in stretches]
    return np.concatenate([*course, steps.mean(0), steps.std(0), steps.min(0), steps.max(0)]).astype(np.float64)
