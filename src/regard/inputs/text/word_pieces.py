"""A text as words, and words as pieces. No model here.

A tokenizer may cut a word into several pieces; the first of them stands for the word (as in Devlin et al. 2018, section
5.3, arXiv:1810.04805). A store tells first pieces from those that go on by their ids: the latter are V higher, V being
the size of the vocabulary. A word of which a tokenizer leaves nothing is read as unknown: every word has a place.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from regard.corpora.pair import words as words_of
from regard.data.special_ids import SpecialIds
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.look.axis import Axis, Token

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


def words_item(tokenizer: Tokenizer, one: Any, cut: str, max_length: int) -> WordsItem:
    """A text, which is cut into words as `decoding.cut` says; or words, which are taken as they are."""
    if isinstance(one, str):
        words = one.split() if cut == "spaces" else words_of(one)
    elif isinstance(one, Sequence) and all(isinstance(word, str) for word in one):
        words = list(one)
    else:
        raise CallError(f"an input is a text or a list of words, not {type(one).__name__}")
    spaced = next((word for word in words if len(word.split()) != 1), None)
    if spaced is not None:
        raise CallError(f"the word {spaced!r} is empty or has a space in it: give each word alone")
    pieces = tuple(Pieces(tokenizer).cut(words))
    if len(pieces) >= max_length:
        raise CallError(
            f"this text has {len(pieces)} tokens, more than the {max_length - 1} that the model was trained for "
            "(data.max_length): give it sentence by sentence"
        )
    return WordsItem(tuple(words), pieces)


def words_axis(tokenizer: Tokenizer, item: WordsItem, first: int | None, end: int) -> Axis:
    """The pieces, between the token that a text begins with (or none) and the one that ends it."""
    text, around = " ".join(item.words), [] if first is None else [first]
    labels = tokenizer.labels(piece.id for piece in item.pieces)
    named = [
        Token(text[piece.start : piece.end] or label, (piece.start, piece.end), piece.word)
        for piece, label in zip(item.pieces, labels, strict=True)
    ]
    *before, last = (Token(label, special=True) for label in tokenizer.labels([*around, end]))
    return Axis((*before, *named, last), text)
