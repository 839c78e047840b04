"""Words come in: a text that is cut into words, of each of which something can be said.

A tokenizer may cut a word into several pieces; the first of them stands for the word (as in Devlin et al. 2018, section
5.3, arXiv:1810.04805). A store tells first pieces from those that go on by their ids: the latter are V higher, V being
the size of the vocabulary. A word of which a tokenizer leaves nothing is read as unknown: every word has a place.
"""

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.corpora.pair import words as words_of
from regard.data.batches import padded
from regard.data.examples import Example
from regard.data.pairs import Pair
from regard.data.special_ids import SpecialIds
from regard.data.splits import Split
from regard.data.store import Store
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import Vocabulary
from regard.errors import CallError
from regard.inputs.text.input import TextInput
from regard.inputs.text.pairs import Frame, PairExamples
from regard.look.axis import Axis, Token
from regard.models.tagger import Words

SPACED = re.compile(r"\S+")


class Piece(NamedTuple):
    id: int
    word: int  # the number of the word that it is of
    start: int  # where it begins and ends in the words joined by spaces
    end: int


class WordsItem(NamedTuple):
    words: tuple[str, ...]
    pieces: tuple[Piece, ...]

    @property
    def places(self) -> list[int]:
        """Of the first piece of each word."""
        return [place for place, one in enumerate(self.pieces) if not place or self.pieces[place - 1].word != one.word]


class Pieces:
    """To a store, the vocabulary of pieces: those that go on with a word have V added to their ids."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.specials: SpecialIds = tokenizer.specials
        self.size = 2 * tokenizer.size

    def cut(self, words: Sequence[str]) -> list[Piece]:
        text, tokenizer = " ".join(words), self.tokenizer
        found = [
            Piece(index, span.word, span.start, span.end)
            for index, span in zip(tokenizer.encode(text), tokenizer.spans(text, SPACED), strict=True)
            if span.end > span.start  # not the space that some put before a text
        ]
        missing = set(range(len(words))) - {piece.word for piece in found}
        if missing and self.specials.unk is None:
            raise CallError(f"the tokenizer leaves nothing of the word {words[min(missing)]!r}")
        begins = [match.start() for match in SPACED.finditer(text)]
        found += [Piece(int(self.specials.unk or 0), word, begins[word], begins[word]) for word in missing]
        return sorted(found, key=lambda piece: piece.word)  # keeps the order of the pieces of a word

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [self._ids(self.cut(text.split())) for text in texts]

    def _ids(self, pieces: Sequence[Piece]) -> list[int]:
        before = [-1, *(piece.word for piece in pieces)]
        return [
            piece.id + self.tokenizer.size * (piece.word == last)
            for piece, last in zip(pieces, before, strict=False)
        ]  # fmt: skip

    def to_json(self) -> str:
        return "first pieces\n" + self.tokenizer.to_json()


class WordsExamples(PairExamples):
    """Words and what is said of each: a target has as many ids as its source has words left, and its end."""

    def __init__(self, store: Store, split: Split[Pair], frame: Frame, example: Any, size: int) -> None:
        super().__init__(store, split, frame, example)
        self._size = size  # of the tokenizer

    def source(self, rows: NDArray[np.int64], epoch: int) -> Words:
        ids = [self.store.row("source", int(row)) for row in rows]
        places = [np.flatnonzero(one[:-1] < self._size) for one in ids]
        return framed(self._frame, [np.where(one < self._size, one, one - self._size) for one in ids], places)

    def target(self, row: int) -> NDArray[Any]:
        source, target = self.store.row("source", row), self.store.row("target", row)
        return target[: int((source[:-1] < self._size).sum())]


def framed(frame: Frame, ended: Sequence[NDArray[Any] | list[int]], places: Sequence[Any]) -> Words:
    moved = [np.asarray(one, np.int64) + frame.before for one in places]
    return Words(frame.padded(ended), padded(moved))


class WordsInput(TextInput):
    def writer(self) -> Vocabulary:
        return Pieces(self.tokenizer)

    def examples(self, store: Store, split: Split[Pair]) -> WordsExamples:
        return WordsExamples(store, split, self.frame, self.example, self.tokenizer.size)

    def example(self, pair: Pair) -> Example:
        return Example(tuple(pair.source.split()), (pair.target,))

    # ------------------------------------------------------------------------------------------------------- one's own
    def read(self, one: Any) -> Any:
        """A text, which is cut into words as `decoding.cut` says; or words, which are taken as they are."""
        if isinstance(one, str):
            words = one.split() if self.recipe.decoding.cut == "spaces" else words_of(one)
        elif isinstance(one, Sequence) and all(isinstance(word, str) for word in one):
            words = list(one)
        else:
            raise CallError(f"an input is a text or a list of words, not {type(one).__name__}")
        spaced = next((word for word in words if len(word.split()) != 1), None)
        if spaced is not None:
            raise CallError(f"the word {spaced!r} is empty or has a space in it: give each word alone")
        pieces = tuple(Pieces(self.tokenizer).cut(words))
        if len(pieces) >= self.data.max_length:
            raise CallError(
                f"this text has {len(pieces)} tokens, more than the {self.data.max_length - 1} that the model was "
                "trained for (data.max_length): give it sentence by sentence"
            )
        return WordsItem(tuple(words), pieces)

    def name(self, one: Any) -> str:
        return one if isinstance(one, str) else " ".join(one)

    def length(self, item: Any) -> int:
        return len(item.pieces)

    def collate(self, items: Sequence[Any]) -> Any:
        ids = [[piece.id for piece in item.pieces] + [self.frame.end] for item in items]
        return framed(self.frame, ids, [item.places for item in items])

    # --------------------------------------------------------------------------------------------------------- looking
    def axis(self, item: Any) -> Axis:
        tokenizer, frame, text = self.tokenizer, self.frame, " ".join(item.words)
        first, end = ([] if frame.first is None else [frame.first]), [frame.end]
        labels = tokenizer.labels(piece.id for piece in item.pieces)
        named = [
            Token(text[piece.start : piece.end] or label, (piece.start, piece.end), piece.word)
            for piece, label in zip(item.pieces, labels, strict=True)
        ]
        specials = [Token(label, special=True) for label in tokenizer.labels([*first, *end])]
        return Axis((*specials[:-1], *named, specials[-1]), text)

    def parts(self, item: Any) -> list[int]:
        return list(range(self.frame.before, self.frame.before + len(item.pieces)))

    def without(self, item: Any, parts: Collection[int]) -> WordsItem:
        """They are read as unknown, and not left out: every word keeps its place, for something is said of it."""
        unknown = self.tokenizer.specials.unk
        if unknown is None:
            raise CallError("words that are left out are read as unknown, and this vocabulary has no token for that")
        pieces = [
            piece._replace(id=unknown) if place in parts else piece for place, piece in enumerate(item.pieces)
        ]  # fmt: skip
        return item._replace(pieces=tuple(pieces))

    def row_of_words(self, item: WordsItem) -> list[int]:
        """Where the first piece of each word stands on the axis."""
        return [self.frame.before + place for place in item.places]
