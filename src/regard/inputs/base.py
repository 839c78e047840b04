"""What comes in. Each kind is a folder beside this file, and an `Input` in it; it knows no output and no other input.

    the user's files → examples on disk → what an encoder reads → (the encoder) → Memory
    one's own input  → an item          → what an encoder reads → (the encoder) → Memory

An *item* is one input in the form that a model of this kind is given it (token ids, pixels, features of sound): what
`read` makes, and nobody else looks into.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import nn

from regard.data.check_report import CheckReport, figures_of
from regard.data.examples import Example
from regard.data.listed import ListedExamples
from regard.data.special_ids import SpecialIds
from regard.data.tables import Role
from regard.errors import CallError
from regard.inputs.column import Column, ReadColumn
from regard.layers.pooling import Pooling
from regard.look.axis import Axis
from regard.settings.recipe import Recipe


@runtime_checkable
class Vocabulary(Protocol):
    """What writes targets as ids: a tokenizer, or the labels of a classifier."""

    @property
    def size(self) -> int: ...
    @property
    def specials(self) -> SpecialIds: ...
    def encode_batch(self, texts: list[str]) -> list[list[int]]: ...
    def to_json(self) -> str: ...


@runtime_checkable
class Targets(Protocol):
    """What an input has to know of the output whose targets stand in its files."""

    learns_from_all: ClassVar[bool]  # a choice of the texts has all words that matter, but not all classes

    @property
    def key(self) -> Any:
        """What the vocabulary of targets depends on beside their texts; None: on nothing, for it is there."""
        ...

    def learn(self, texts: Iterable[str]) -> Vocabulary:
        """The vocabulary, from the target texts of the training data; as it is, if it is there."""
        ...

    def load(self, written: str) -> Vocabulary:
        """The vocabulary as its `to_json` wrote it."""
        ...


class Input(ABC):
    """`data` and `model` are the sections of a recipe. `prepare` (training) or `restore` (prediction) comes first."""

    kind: ClassVar[str]  # text, image, sound, table
    ahead: ClassVar[bool] = False  # whether making a batch is worth a thread of its own

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

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

    def listed(self, name: str, examples: Sequence[Example], vocabulary: Vocabulary) -> ListedExamples:
        """Examples of `prepare` that stay in memory: `name` is where they are from, the first text is the target."""
        items = [self.read(example.input) for example in examples]
        targets = vocabulary.encode_batch([example.texts[0] for example in examples])
        return ListedExamples(name, examples, items, targets, self.length, self.collate)

    def check(self, splits: dict[Role, Any], vocabulary: Vocabulary) -> CheckReport:
        """What is wrong with data that was prepared with `strict=False`: by default, figures and no finding."""
        return figures_of(splits, vocabulary.size)

    @abstractmethod
    def test(self) -> tuple[Any, str]:
        """All test examples (a list of `Example`, where there are such), and a note on what could not be used."""

    def no_test_data(self) -> CallError:
        return CallError("the recipe has no test data: give data.test=FILE")

    def save(self, folder: Path) -> None:  # noqa: B027 (many have nothing to save)
        """What `read` needs beside the recipe."""

    def restore(self, folder: Path) -> None:  # noqa: B027
        """The inverse of `save`."""

    # ---------------------------------------------------------------------------------- beside another: inputs/joint.py
    def in_list(self, file: Path, cells: Sequence[str]) -> list[Any]:
        """What the cells of a list stand for, as a person would give it: by default, what is written there."""
        return list(cells)

    def column(self, values: Mapping[str, Any], cache: Path, role: Role) -> Column:
        """One column of a list, its values by their names. That of the training data comes first, and teaches what
        `read` has to know."""
        return ReadColumn(values, self.read, self.length, self.collate)

    # ---------------------------------------------------------------------------------------------------- one's own
    def parse(self, words: Sequence[str]) -> list[Any]:
        """What words on a command line, or lines of a file, stand for: texts, or pictures and recordings by path."""
        return list(words)

    def about(self, words: Sequence[str], file: str) -> list[Any]:
        """Inputs: each of the words with one file that they are about."""
        raise CallError("--about is for questions, and this model takes none")

    @abstractmethod
    def read(self, one: Any) -> Any:
        """The item of one input."""

    def pieces(self, one: Any, longest: float) -> Iterable[Any]:
        """The items of an input that may be longer than a model takes at once: a recording, cut every few seconds."""
        yield self.read(one)

    def name(self, one: Any) -> str:
        """What a prediction says that it is about."""
        return str(one)

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
