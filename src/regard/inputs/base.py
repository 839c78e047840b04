"""Inputs. Each kind is a folder next to this file with a subclass of `Input`. An input depends on no output and on no
other input.

    the user's files → examples on disk → what an encoder reads → (the encoder) → Memory
    one input        → an item          → what an encoder reads → (the encoder) → Memory

An *item* is one input in the form that a model of this kind reads (token ids, pixels, sound features). `read` makes
it; other code treats it as opaque.
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
from regard.data.prepare import PrepareCache
from regard.data.tables import Role
from regard.data.vocabulary import Targets, Vocabulary
from regard.errors import CallError
from regard.inputs.column import InputColumn, ListedExamples, ReadColumn
from regard.layers.pooling import Pooling
from regard.look.axis import Axis
from regard.settings.recipe import Decision, Recipe

POINTS = 16  # points of a sequence that baselines read


class Input(ABC):
    """Input of one kind. `data` and `model` are sections of a recipe. Call `prepare` (training) or `restore`
    (prediction) first.
    """

    kind: ClassVar[str]  # text, image, sound, table
    ahead: ClassVar[bool] = False  # whether batches are made in a separate thread
    array_dims: ClassVar[int] = 0  # largest number of dimensions of an array or tensor that is one input
    takes_files: ClassVar[bool] = False  # whether a word on the command line names a file or a folder of files

    def __init__(self, recipe: Recipe, section: Callable[[Any], Any] = lambda recipe: recipe.model) -> None:
        """Create the input; `section` is the part of the recipe with the encoder settings."""
        self.recipe, self._section = recipe, section

    @property
    def data(self) -> Any:
        return self.recipe.data  # pyright: ignore[reportAttributeAccessIssue] (every recipe of a job has it)

    @property
    def settings(self) -> Any:
        """Encoder settings of the recipe."""
        return self._section(self.recipe)

    def with_recipe(self, recipe: Recipe) -> Any:
        """Return a copy with a changed recipe and the same prepared or restored state."""
        changed = copy(self)
        changed.recipe = recipe
        return changed

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kind of each part of one input; the service offers a field or an upload for each."""
        return (self.kind,)

    # ------------------------------------------------------------------------------------------------------- the files
    @abstractmethod
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Any]:
        """Convert the user's files to a form that training reads quickly: train and valid, and test if `strict=False`.

        Pairs of an input and an output become `Examples`.

        `strict` refuses data with more bad lines than `data.max_bad`; otherwise they are counted, for `check`.
        """

    def auto_settings(self) -> list[Decision]:
        """Choose data settings that the recipe leaves open, from a few examples (auto)."""
        return []

    def decided_by(self, some: Iterable[Any]) -> list[Decision]:
        """Choose data settings from a few values of a column of a two-input job."""
        return []

    def target_texts(self) -> list[str]:
        """Return the targets of some examples."""
        return []

    def listed(self, name: str, examples: Sequence[Example], vocabulary: Vocabulary) -> ListedExamples:
        """Return examples of `prepare` that stay in memory. `name` is their origin; every target is a text."""
        values = {str(number): example.input for number, example in enumerate(examples)}
        column = ReadColumn(values, self.read, self.length, self.collate)
        return ListedExamples(name, column, examples, vocabulary)

    def check(self, splits: dict[Role, Any], vocabulary: Vocabulary) -> CheckReport:
        """Return problems of data prepared with `strict=False`; by default figures without findings."""
        return figures_of(splits, vocabulary.size)

    @abstractmethod
    def test(self) -> tuple[Any, str]:
        """Return all test examples (a list of `Example`, if the input has any) and a note on unusable ones. Requires
        `has_test_data`.
        """

    @property
    def has_test_data(self) -> bool:
        """Whether `test` has data; reads nothing."""
        return "test" in places(self.data) or self.data.test_share > 0

    @property
    def has_test_part(self) -> bool:
        """Whether there is test data separate from the validation data."""
        return self.has_test_data

    @property
    def test_name(self) -> str:
        """Description of the data that `test` gives."""
        data = self.data
        if "test" in places(data):
            return f"test data, {places(data)['test']}"
        share = f"data.test_share={data.test_share:g}" if hasattr(data, "test_share") else "data.split"
        return f"test data, held out of {data.train} by {share}"

    def no_test_data(self) -> CallError:
        return CallError("the recipe has no test data: give data.test=FILE, or train with data.test_share=0.1")

    def save(self, folder: Path) -> None:  # noqa: B027 (many have nothing to save)
        """Save what `read` needs in addition to the recipe."""

    def restore(self, folder: Path) -> None:  # noqa: B027
        """Restore what `save` wrote."""

    # -------------------------------------------------------------------------------------- two inputs: inputs/joint.py
    def resolve_cells(self, file: Path, cells: Sequence[str]) -> list[Any]:
        """Convert the cells of a list to inputs as a user would give them; by default the cells themselves."""
        return list(cells)

    def column(self, values: Mapping[str, Any], role: Role, steps: PrepareCache) -> InputColumn:
        """Read one column of a list; returns its values by name. The training column comes first and fits what `read`
        needs.
        """
        return ReadColumn(values, self.read, self.length, self.collate)

    # ------------------------------------------------------------------------------------------------ single inputs
    def parse(self, words: Sequence[str]) -> list[Any]:
        """Convert words of a command line, or lines of a file, to inputs: texts, or media paths."""
        return list(words)

    def word(self, one: Any) -> str:
        """Return an input of the examples as a word that `parse` accepts, if there is one."""
        return self.name(one)

    def subject(self, file: str) -> Any:
        """Load the contexts that words of a command line refer to (`about`), from this file or from standard input
        (`-`).
        """
        raise CallError("--about is for questions, and this model takes none")

    def about(self, words: Sequence[str], subject: Any) -> list[Any]:
        """Combine each word with a context to an input."""
        return [(subject, word) for word in words]

    def is_one(self, value: Any) -> bool:
        """Whether a Python value is one input rather than several (a list or another iterable). A text and a table are
        one input, and so is an array of up to `array_dims` dimensions.
        """
        if isinstance(value, str | bytes | Mapping | Path) or hasattr(value, "_fields"):  # a named tuple
            return True
        return not isinstance(value, Iterable) or 0 < getattr(value, "ndim", 0) <= self.array_dims

    def readable(self, inputs: Sequence[Any]) -> tuple[list[Any], list[str]]:
        """Return the readable inputs, and a message for each of the others."""
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
        """Return the item of one input."""

    def windows(self, one: Any) -> Iterable[Any]:
        """Return the items of an input of any length: several if it is longer than the model reads at once."""
        yield self.read(one)

    def is_overlong(self, one: Any) -> bool:
        """Whether an input is longer than `limit`. Longer inputs are read in windows or cut; scores report how many."""
        return False

    @property
    def limit(self) -> str:
        """Describe the length limit and what happens to longer inputs: "data.max_length=80 tokens: they are cut"."""
        return ""

    def look_note(self, one: object) -> str:
        """Return a sentence on what `look` shows of an input, if that is only a part of it."""
        return ""

    def name(self, one: Any) -> str:
        """Return the name of the input in a prediction."""
        return str(one)

    def plain(self, one: Any) -> Sequence[str] | NDArray[Any]:
        """Return what a simple baseline reads of an input: its texts, or a fixed number of numbers."""
        raise CallError("this input has no plain form")

    def heard(self, one: Any) -> bytes | None:
        """Return a recording as WAV; None for inputs that are not sound."""
        return None

    @abstractmethod
    def length(self, item: Any) -> int:
        """Number of vectors of the item; inputs of similar length form a batch. 0 if the item is empty."""

    @abstractmethod
    def collate(self, items: Sequence[Any]) -> Any:
        """Combine items into a batch for the encoder."""

    # ------------------------------------------------------------------------------------------------------- the model
    @property
    def shared_vocabulary(self) -> Any:
        """Tokenizer of the input, if it also encodes the targets."""
        return None

    @abstractmethod
    def encoder(self, decoder: Any = None) -> nn.Module:
        """Build the encoder: a module that maps a batch of `collate` to a `Memory`, with `memory_width` and
        `summary_width`.

        `decoder`: settings of the decoder that attends to the memory, if there is one.
        """

    def pooling(self, width: int) -> nn.Module:
        """Build the pooling, which makes one vector of a memory of this width; by default the encoder's summary."""
        return Pooling("summary")

    def noise(self) -> nn.Module | None:
        """Return the module that augments a batch of `collate` in training, before the encoder reads it."""
        return None

    @property
    def frozen(self) -> bool:
        """Whether the encoder is frozen and only the layers above it are trained."""
        return False

    # ---------------------------------------------------------------------------------------------------- explanations
    def inside(self, item: Any) -> Any:
        """Return the item on the axis of the encoder's self-attention if that differs from the memory's: with the
        class token of a Vision Transformer, or with the positions of an early stage of a CNN.
        """
        return item

    def without_features(self, item: Any) -> Any:
        """Return the item as it was read, without precomputed features. Explanations that look into the encoder start
        from it.
        """
        return item

    @abstractmethod
    def axis(self, item: Any) -> Axis:
        """Return the axis of the memory's vectors: words, regions, seconds, days."""

    def parts(self, item: Any) -> list[int]:
        """Return the positions on the axis that can be masked; by default all that are not special."""
        return self.axis(item).real()

    @abstractmethod
    def without(self, item: Any, parts: Collection[int]) -> Any:
        """Return the item with some of its parts masked; parts are numbered from 0 in the order of `parts`."""

    def vectors(self, encoder: nn.Module) -> nn.Module | None:
        """Return the module whose outputs are the input vectors of the encoder, for gradients;
        None if there is none.
        """
        return None

    def gather(self, item: Any, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        """Sum the vectors of `vectors` times their gradients over each part; by default, a part is one vector."""
        return products[0].sum(-1)[:, self.parts(item)]


def summary_of(steps: Float[np.ndarray, "S C"]) -> Float[np.ndarray, " D"]:
    """Return, for every column, the means of equal stretches, its mean, deviation, minimum and maximum."""
    if not len(steps):
        return np.zeros((POINTS + 4) * steps.shape[1])
    ends = np.linspace(0, len(steps), POINTS + 1)
    stretches = [steps[int(a) : max(int(a) + 1, int(b))] for a, b in pairwise(ends)]
    course = [stretch.mean(0) for stretch in stretches]
    return np.concatenate([*course, steps.mean(0), steps.std(0), steps.min(0), steps.max(0)]).astype(np.float64)
