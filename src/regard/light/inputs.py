"""Inputs of graphs: `regard.inputs.base.Input` without training, models and explanation."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.inputs.image.decode import BadPictureError, Decoded, PictureForm, decode, from_python
from regard.inputs.image.source import PictureSource
from regard.inputs.joint_reader import JointItem, JointReader
from regard.inputs.media_files import Bytes, files_named
from regard.inputs.prompt.files import prompt_ids
from regard.inputs.series.item import SeriesItem, SeriesReader
from regard.inputs.series.windows import WindowReader
from regard.inputs.sound.features import MemoryTimes
from regard.inputs.sound.item import SoundItem, SoundReader, SoundSource
from regard.inputs.text.two_texts import LongTextReader, TextItem, TwoTextsItem, TwoTextsReader, read_text
from regard.inputs.text_axis import read_axis, written_axis
from regard.light.session import Arrays, Description
from regard.look.axis import Axis, axis


class LightInput(ABC):
    kind: ClassVar[str]  # text, image, sound
    array_dims: ClassVar[int] = 0
    takes_files: ClassVar[bool] = False

    def __init__(self, about: Description) -> None:
        self.recipe: Any = about.recipe
        self.reads = about.reads

    def with_recipe(self, recipe: Any) -> Any:
        """Return a copy under a changed recipe."""
        changed = copy(self)
        changed.recipe = recipe
        return changed

    @property
    def kinds(self) -> tuple[str, ...]:
        return (self.kind,)

    def parse(self, words: Sequence[str]) -> list[Any]:
        """Parse command-line arguments into inputs."""
        return list(words)

    def word(self, one: Any) -> str:
        return self.name(one)

    def name(self, one: Any) -> str:
        return str(one)

    def subject(self, file: str) -> Any:
        raise CallError("--about is for questions, and this model takes none")

    def about(self, words: Sequence[str], subject: Any) -> list[Any]:
        return [(subject, word) for word in words]

    def heard(self, one: Any) -> bytes | None:
        return None

    def is_one(self, value: Any) -> bool:
        """Whether a Python value is one input rather than several."""
        if isinstance(value, str | bytes | Mapping | Path) or hasattr(value, "_fields"):
            return True
        return not isinstance(value, Iterable) or 0 < getattr(value, "ndim", 0) <= self.array_dims

    def readable(self, inputs: Sequence[Any]) -> tuple[list[Any], list[str]]:
        """Return the readable inputs, and an error sentence for each of the others."""
        good, problems = [], []
        for one in inputs:
            try:
                for _ in self.windows(one):
                    pass
                good.append(one)
            except CallError as problem:
                problems.append(str(problem))
        return good, problems

    def item_of(self, one: Any) -> Any:
        """Return the item of an input to look at. Raise if it is empty."""
        item = self.read(one)
        if not self.length(item):
            raise CallError(f"the input {self.name(one)!r} has no token: there is nothing to look at")
        return item

    @abstractmethod
    def read(self, one: Any) -> Any:
        """Return the item of one input."""

    def windows(self, one: Any) -> Iterable[Any]:
        """Yield the items of an input: one, or several if it is longer than the model's limit."""
        yield self.read(one)

    def look_note(self, one: object) -> str:
        """Return a sentence on what `look` shows of an input, if that is only a part of it."""
        return ""

    @abstractmethod
    def length(self, item: Any) -> int:
        """Return the number of vectors of the item; 0: it is empty."""

    @abstractmethod
    def collate(self, items: Sequence[Any]) -> Arrays:
        """Return the arrays of several items for the graph."""

    @abstractmethod
    def axis(self, item: Any) -> Axis:
        """Return the axis of the memory's vectors, for figures."""


def padded_ids(rows: Sequence[Sequence[int]], pad: int) -> np.ndarray:
    """Return token ids with padding after shorter rows."""
    table = np.full((len(rows), max(map(len, rows))), pad, np.int64)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return table


def pad_sequences(sequences: Sequence[np.ndarray]) -> Arrays:
    """Return rows of numbers with zeros after shorter ones, as `data.batches.Padded`."""
    lengths = np.array([len(one) for one in sequences], np.int64)
    values = np.zeros((len(sequences), int(lengths.max()), sequences[0].shape[1]), np.float32)
    for row, one in zip(values, sequences, strict=True):
        row[: len(one)] = one
    return {"values": values, "lengths": lengths}


# Texts and prompts for graphs.


class LightText(LightInput):
    kind: ClassVar[str] = "text"

    def __init__(self, about: Description) -> None:
        super().__init__(about)
        self.tokenizer = Tokenizer.of_run(about.folder)

    def read(self, one: object) -> TextItem:
        item = read_text(self.tokenizer, one)
        return item._replace(ids=item.ids[: self.reads["longest"]])

    def length(self, item: TextItem) -> int:
        return len(item.ids)

    def collate(self, items: Sequence[TextItem]) -> Arrays:
        return {"source": self.padded([item.ids for item in items])}

    def padded(self, texts: Sequence[Sequence[int]]) -> np.ndarray:
        """Return padded texts with start and end tokens."""
        first = [] if self.reads["first"] is None else [self.reads["first"]]
        return padded_ids([[*first, *ids, self.reads["end"]] for ids in texts], self.reads["pad"])

    def axis(self, item: TextItem) -> Axis:
        return read_axis(self.tokenizer, item.text, item.ids, self.reads["first"], self.reads["end"])


class LightLongText(LongTextReader, LightText):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Texts of any length with labels."""

    def __init__(self, about: Description) -> None:
        super().__init__(about)
        self.most = self.reads["longest"]


class LightTwoTexts(TwoTextsReader, LightText):  # pyright: ignore[reportIncompatibleMethodOverride]
    def __init__(self, about: Description) -> None:
        super().__init__(about)
        longest = self.reads["longest"]
        self.most = float("inf") if longest is None else longest - 1
        self.marks = self.reads["first"], self.reads["end"]

    def collate(self, items: Sequence[TwoTextsItem]) -> Arrays:  # pyright: ignore[reportIncompatibleMethodOverride]
        return {"source": self.padded([self.ids_of(item) for item in items])}


class LightPrompt(LightText):
    def read(self, one: Any) -> TextItem:
        if not isinstance(one, str):
            raise CallError(f"a prompt is a text, not {type(one).__name__}")
        recipe = self.recipe
        return TextItem(one, prompt_ids(self.tokenizer, one, recipe.decoding.begin, recipe.data.documents))

    def axis(self, item: TextItem) -> Axis:
        return written_axis(self.tokenizer, item.ids, self.tokenizer.specials.names)


class LightSound(SoundReader, LightInput):
    """Recordings for graphs, read as in training (`inputs/sound/item.py`)."""

    kind: ClassVar[str] = "sound"
    array_dims: ClassVar[int] = 2
    takes_files: ClassVar[bool] = True

    def parse(self, words: Sequence[str]) -> list[str]:
        return files_named(words, SoundSource.is_one, SoundSource.what)

    def find(self, word: str) -> Any:
        return SoundSource.find(word)

    def collate(self, items: Sequence[SoundItem]) -> Arrays:
        return pad_sequences([item.features for item in items])

    def axis(self, item: SoundItem) -> Axis:
        return MemoryTimes(self.recipe.data.sound, self.reads["reduction"]).axis(item.features)


# Pictures for graphs, decoded by Pillow as in training.

CLASS_TOKEN = "[CLS]"


class LightPictureItem(NamedTuple):
    name: str
    pixels: np.ndarray  # C H W


class LightPicture(LightInput):
    kind: ClassVar[str] = "image"
    array_dims: ClassVar[int] = 3
    takes_files: ClassVar[bool] = True

    def parse(self, words: Sequence[str]) -> list[str]:
        return files_named(words, PictureSource.is_one, PictureSource.what)

    def name(self, one: Any) -> str:
        if isinstance(one, LightPictureItem):
            return one.name
        return str(one) if isinstance(one, str | Path) else f"a picture ({type(one).__name__})"

    def read(self, one: Any) -> LightPictureItem:
        """Read a picture: a path, bytes, an array, or a Pillow image."""
        if isinstance(one, LightPictureItem):
            return one
        try:
            return LightPictureItem(self.name(one), self._decode_all(one).pixels)
        except BadPictureError as problem:
            raise CallError(f"{self.name(one)}: {problem}") from None
        except OSError as problem:
            raise CallError(f"{self.name(one)}: cannot be read: {problem.strerror or problem}") from None

    def _decode_all(self, one: Any) -> Decoded:
        data = self.recipe.data
        form = PictureForm(data.height, data.width, data.channels, data.fit, data.max_pixels, data.white)
        place = PictureSource.find(str(one)) if isinstance(one, str | Path) else one
        if isinstance(place, Bytes):
            return decode(place.read(), form, place.name)
        return decode(place, form) if isinstance(place, bytes) else from_python(place, form)

    def length(self, item: LightPictureItem) -> int:
        rows, columns = self.reads["grid"]
        return rows * columns

    def collate(self, items: Sequence[LightPictureItem]) -> Arrays:
        return {"source": np.stack([item.pixels for item in items])}

    def axis(self, item: LightPictureItem) -> Axis:
        rows, columns = self.reads["grid"]
        regions = [f"row {row + 1}, column {column + 1}" for row in range(rows) for column in range(columns)]
        first = [CLASS_TOKEN] if self.reads["class_token"] else []
        return axis([*first, *regions], grid=(rows, columns), image=item.pixels.transpose(1, 2, 0))


class LightSeries(SeriesReader, LightInput):
    """Series and their windows for graphs, read and scaled as in training (`inputs/series/item.py`)."""

    kind: ClassVar[str] = "table"
    array_dims: ClassVar[int] = 2

    def __init__(self, about: Description) -> None:
        super().__init__(about)
        self.restore(about.folder)

    def collate(self, items: Sequence[SeriesItem]) -> Arrays:
        return pad_sequences([item.numbers for item in items])


class LightWindows(WindowReader, LightSeries):
    def collate(self, items: Sequence[SeriesItem]) -> Arrays:
        sides = {"past": [item.numbers for item in items], "known": [item.known for item in items]}
        return {name: np.stack(side).astype(np.float32) for name, side in sides.items()}


WHOLE = "source"  # graph name of an input of one array


class LightJoint(JointReader, LightInput):
    """Two inputs at once for graphs, with arrays named after their side."""

    def __init__(self, about: Description, first: LightInput, second: LightInput) -> None:
        super().__init__(about)
        self.first, self.second = first, second

    def with_recipe(self, recipe: Any) -> Any:
        changed = super().with_recipe(recipe)
        changed.first, changed.second = self.first.with_recipe(recipe), self.second.with_recipe(recipe)
        return changed

    def collate(self, items: Sequence[JointItem]) -> Arrays:
        """Return arrays; a single array has the name of its side, several keep their names
        (`exporters/onnx/graph.py`).
        """
        sides = zip(JointItem._fields, (self.first, self.second), zip(*items, strict=True), strict=True)
        return {
            side if name == WHOLE else name: array
            for side, input, some in sides
            for name, array in input.collate(some).items()
        }
