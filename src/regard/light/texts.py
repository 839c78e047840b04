"""Texts and prompts for graphs."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.inputs.prompt.ids import prompt_ids
from regard.inputs.text.two_texts import TwoTextsItem, TwoTextsReader
from regard.inputs.text_axis import read_axis, written_axis
from regard.light.description import Description
from regard.light.inputs import LightInput, padded_ids
from regard.light.session import Arrays
from regard.look.axis import Axis


class TextItem(NamedTuple):
    text: str
    ids: list[int]


class LightText(LightInput):
    kind: ClassVar[str] = "text"

    def __init__(self, about: Description) -> None:
        super().__init__(about)
        self.tokenizer = Tokenizer.of_run(about.folder)

    def read(self, one: Any) -> TextItem:
        if not isinstance(one, str):
            raise CallError(f"an input is a text, not {type(one).__name__}")
        return TextItem(one, self.tokenizer.encode(one)[: self.reads["longest"]])

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


class LightTwoTexts(TwoTextsReader, LightText):  # pyright: ignore[reportIncompatibleMethodOverride]
    def __init__(self, about: Description) -> None:
        super().__init__(about)
        longest = self.reads["longest"]
        self.most = float("inf") if longest is None else longest - 1
        self.marks = self.reads["first"], self.reads["end"]

    def collate(self, items: Sequence[TwoTextsItem]) -> Arrays:  # pyright: ignore[reportIncompatibleMethodOverride]
        return {"source": self.padded([self.joined(item) for item in items])}


class LightPrompt(LightText):
    def read(self, one: Any) -> TextItem:
        if not isinstance(one, str):
            raise CallError(f"a prompt is a text, not {type(one).__name__}")
        recipe = self.recipe
        return TextItem(one, prompt_ids(self.tokenizer, one, recipe.decoding.begin, recipe.data.documents))

    def axis(self, item: TextItem) -> Axis:
        return written_axis(self.tokenizer, item.ids, self.tokenizer.specials.names)
