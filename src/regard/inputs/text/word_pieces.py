"""A text as words, and words as pieces. No model here.

A tokenizer may cut a word into several pieces; the first piece represents the word (as in Devlin et al. 2018, section
5.3, arXiv:1810.04805). A store marks the other pieces by ids that are V higher, V being the size of the vocabulary. A
word without any piece is read as the unknown token, so every word has a position.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.corpora.loading import words as words_of
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import SpecialIds
from regard.data.windows import OVERLAP, owners
from regard.errors import CallError
from regard.look.axis import Axis, Token

SPACED = re.compile(r"\S+")


class Piece(NamedTuple):
    id: int
    word: int  # the number of its word
    start: int  # start and end in the words joined by spaces
    end: int


class WordsItem(NamedTuple):
    words: tuple[str, ...]
    pieces: tuple[Piece, ...]

    @property
    def places(self) -> list[int]:
        """Indices of the first piece of each word."""
        return [place for place, one in enumerate(self.pieces) if not place or self.pieces[place - 1].word != one.word]

    def part(self, first: int, end: int, most: int) -> "WordsItem":
        """Return the words from `first` to `end`, with at most `most` pieces; a longer word is cut."""
        places = [*self.places, len(self.pieces)]
        pieces = self.pieces[places[first] : places[end]][:most]
        skipped = sum(len(word) + 1 for word in self.words[:first])
        moved = (Piece(one.id, one.word - first, one.start - skipped, one.end - skipped) for one in pieces)
        return WordsItem(self.words[first:end], tuple(moved))


class Pieces:
    """Vocabulary of pieces for a store: V is added to the ids of pieces that continue a word."""

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
            raise CallError(f"the tokenizer finds no token in the word {words[min(missing)]!r}")
        begins = [match.start() for match in SPACED.finditer(text)]
        found += [Piece(int(self.specials.unk or 0), word, begins[word], begins[word]) for word in missing]
        return sorted(found, key=lambda piece: piece.word)  # preserves the order of the pieces of a word

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


class WordsWindow(NamedTuple):
    """Window of a text's words; the predictions for the words from `first` to `end` are used."""

    item: WordsItem
    first: int
    end: int


class WordsReader:
    """Base class of word readers, with torch and without."""

    recipe: Any
    tokenizer: Tokenizer

    @property
    def most(self) -> int:
        """Number of pieces that the model reads at once."""
        return self.recipe.data.max_length - 1

    def whole(self, one: Any) -> WordsItem:
        """Read a text, which is cut into words by `decoding.cut`, or a list of words, which is used unchanged."""
        if isinstance(one, str):
            words = one.split() if self.recipe.decoding.cut == "spaces" else words_of(one)
        elif isinstance(one, Sequence) and all(isinstance(word, str) for word in one):
            words = list(one)
        else:
            raise CallError(f"an input is a text or a list of words, not {type(one).__name__}")
        spaced = next((word for word in words if len(word.split()) != 1), None)
        if spaced is not None:
            raise CallError(f"the word {spaced!r} is empty or has a space in it: give each word alone")
        return WordsItem(tuple(words), tuple(Pieces(self.tokenizer).cut(words)))

    def read(self, one: Any) -> Any:
        """Return the item of a text that the model reads at once."""
        item = self.whole(one)
        if len(item.pieces) > self.most:
            raise CallError(
                f"this text has {len(item.pieces)} tokens, more than the {self.most} that the model was trained for "
                "(data.max_length): give it sentence by sentence"
            )
        return item

    def windows(self, one: Any) -> Iterator[Any]:
        """Split a text of any length into windows of whole words that overlap by a quarter."""
        return (window.item for window in self.words_windows(self.whole(one)))

    def is_overlong(self, one: Any) -> bool:
        return len(self.whole(one).pieces) > self.most

    @property
    def limit(self) -> str:
        return f"data.max_length={self.most + 1} tokens: they are read in overlapping windows"

    def words_windows(self, item: WordsItem) -> list[WordsWindow]:
        if len(item.pieces) <= self.most:
            return [WordsWindow(item, 0, len(item.words))]
        places = np.array([*item.places, len(item.pieces)])
        spans: list[tuple[int, int]] = []
        while not spans or spans[-1][1] < len(item.words):
            begin = 0
            if spans:  # repeat a quarter of the pieces, and add at least one word
                begin = int(np.searchsorted(places, places[spans[-1][1]] - self.most // OVERLAP))
                begin = min(max(begin, spans[-1][0] + 1), spans[-1][1])
            end = int(np.searchsorted(places, places[begin] + self.most, side="right")) - 1
            spans.append((begin, min(max(end, begin + 1), len(item.words))))
        asked = owners(spans)
        return [
            WordsWindow(item.part(*span, self.most), first - span[0], end - span[0])
            for span, (first, end) in zip(spans, asked, strict=True)
        ]

    def length(self, item: Any) -> int:
        return len(item.pieces)

    def name(self, one: Any) -> str:
        return one if isinstance(one, str) else " ".join(one)


def words_axis(tokenizer: Tokenizer, item: WordsItem, first: int | None, end: int) -> Axis:
    """Return the ids of the pieces, with the begin token (or none) and the end token."""
    text, around = " ".join(item.words), [] if first is None else [first]
    labels = tokenizer.labels(piece.id for piece in item.pieces)
    named = [
        Token(text[piece.start : piece.end] or label, (piece.start, piece.end), piece.word)
        for piece, label in zip(item.pieces, labels, strict=True)
    ]
    *before, last = (Token(label, special=True) for label in tokenizer.labels([*around, end]))
    return Axis((*before, *named, last), text)
