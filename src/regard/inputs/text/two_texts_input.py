"""Two texts read as one: files and batches. `two_texts.py` reads single inputs."""

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from regard.data.examples import Example
from regard.data.pairs import BETWEEN, Pair
from regard.data.special_ids import SpecialIds
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import Vocabulary
from regard.inputs.text.input import TextInput
from regard.inputs.text.two_texts import TwoTextsItem, TwoTextsReader, fitting


class JoinedTexts:
    """Vocabulary of two texts for a store: a separator between them. `most`: ids of both, without marks."""

    def __init__(self, tokenizer: Tokenizer, most: int | float) -> None:
        self.tokenizer, self.most, self.size = tokenizer, most, tokenizer.size
        self.specials: SpecialIds = tokenizer.specials

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        sides = [self.tokenizer.encode_batch([text.split(BETWEEN)[side] for text in texts]) for side in (0, 1)]
        both = (fitting(one, other, self.most) for one, other in zip(*sides, strict=True))
        return [[*one, int(self.specials.end or 0), *other] for one, other in both]

    def to_json(self) -> str:
        return f"two texts of {self.most}\n" + self.tokenizer.to_json()


class TwoTextsInput(TwoTextsReader, TextInput):  # pyright: ignore[reportIncompatibleVariableOverride, reportIncompatibleMethodOverride]
    @property
    def most(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.data.max_length - 2

    def windows(self, one: Any) -> Iterator[Any]:
        yield self.read(one)

    @property
    def marks(self) -> tuple[int | None, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.frame.first, self.frame.end

    def is_overlong(self, one: Any) -> bool:
        return sum(len(self.tokenizer.encode(text)) for text in self.two(one)) > self.data.max_length - 2

    @property
    def limit(self) -> str:
        return f"data.max_length={self.data.max_length} tokens: the longer text is cut"

    def writer(self) -> Vocabulary:
        return JoinedTexts(self.tokenizer, self.most if self.cuts else float("inf"))

    def texts_of(self, source: str) -> Sequence[str]:
        return source.split(BETWEEN)

    def example(self, pair: Pair) -> Example:
        return Example(self.two(pair.source), (pair.target,))

    def collate(self, items: Sequence[TwoTextsItem]) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.frame.read([self.joined(item) for item in items])
