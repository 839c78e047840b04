"""Word input: a text that is cut into words, with a prediction for each word (`word_pieces.py`)."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.batches import pad_rows
from regard.data.examples import Example
from regard.data.pairs import Pair
from regard.data.prepare import Split
from regard.data.store import Store
from regard.data.vocabulary import Vocabulary
from regard.errors import CallError
from regard.inputs.text.input import TextInput
from regard.inputs.text.pairs import Frame, PairExamples
from regard.inputs.text.word_pieces import Pieces, WordsItem, WordsReader, words_axis
from regard.look.axis import Axis
from regard.models.classifier import WordBatch


class WordsExamples(PairExamples):
    """Words and their tags: a target has one id for each remaining word of its source, and its end token."""

    def __init__(self, store: Store, split: Split[Pair], frame: Frame, example: Any, size: int) -> None:
        super().__init__(store, split, frame, example)
        self._size = size  # of the tokenizer

    def source(self, rows: NDArray[np.int64], epoch: int) -> WordBatch:
        ids = [self.store.row("source", int(row)) for row in rows]
        places = [np.flatnonzero(one[:-1] < self._size) for one in ids]
        return add_frame(self._frame, [np.where(one < self._size, one, one - self._size) for one in ids], places)

    def target(self, row: int) -> NDArray[Any]:
        source, target = self.store.row("source", row), self.store.row("target", row)
        return target[: int((source[:-1] < self._size).sum())]


def add_frame(frame: Frame, ended: Sequence[NDArray[Any] | list[int]], places: Sequence[Any]) -> WordBatch:
    moved = [np.asarray(one, np.int64) + frame.before for one in places]
    return WordBatch(frame.padded(ended), pad_rows(moved))


class WordsInput(WordsReader, TextInput):  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
    def writer(self) -> Vocabulary:
        return Pieces(self.tokenizer)

    def examples(self, store: Store, split: Split[Pair]) -> WordsExamples:
        return WordsExamples(store, split, self.frame, self.example, self.tokenizer.size)

    def example(self, pair: Pair) -> Example:
        return Example(tuple(pair.source.split()), (pair.target,))

    # --------------------------------------------------------------------------------------------------- single inputs
    def collate(self, items: Sequence[Any]) -> Any:
        ids = [[piece.id for piece in item.pieces] + [self.frame.end] for item in items]
        return add_frame(self.frame, ids, [item.places for item in items])

    # ---------------------------------------------------------------------------------------------------- explanations
    def axis(self, item: Any) -> Axis:
        return words_axis(self.tokenizer, item, self.frame.first, self.frame.end)

    def parts(self, item: Any) -> list[int]:
        return list(range(self.frame.before, self.frame.before + len(item.pieces)))

    def without(self, item: Any, parts: Collection[int]) -> WordsItem:
        """Replace words by the unknown token rather than remove them: every word has a tag and keeps its position."""
        unknown = self.tokenizer.specials.unk
        if unknown is None:
            raise CallError("masking words needs a token for unknown words, which this vocabulary does not have")
        pieces = [
            piece._replace(id=unknown) if place in parts else piece for place, piece in enumerate(item.pieces)
        ]  # fmt: skip
        return item._replace(pieces=tuple(pieces))

    def row_of_words(self, item: WordsItem) -> list[int]:
        """Return the position of each word's first piece on the axis."""
        return [self.frame.before + place for place in item.places]
