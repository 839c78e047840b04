"""Two texts come in, and are read as one:

    <s> first </s> second </s>

so that every word of one can look at every word of the other. Devlin et al. 2018, section 3 (arXiv:1810.04805), who
also add a vector to each token that says which of the two it is of; here, its place and the mark between them say it,
as in Liu et al. 2019 (arXiv:1907.11692). Where both are longer than a model takes, the longer one is cut.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from regard.data.examples import Example
from regard.data.pairs import BETWEEN, Pair
from regard.data.special_ids import SpecialIds
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import Vocabulary
from regard.errors import CallError
from regard.inputs.text.input import TextInput
from regard.inputs.text_axis import two_axis
from regard.inputs.two import two_of
from regard.look.axis import Axis


class TwoTextsItem(NamedTuple):
    texts: tuple[str, str]
    first: list[int]
    second: list[int]


def fitting(first: list[int], second: list[int], most: float) -> tuple[list[int], list[int]]:
    """So many ids of both together: the longer one is cut, and both, once they are equally long."""
    over = len(first) + len(second) - most
    while over > 0 and (first or second):
        longer = first if len(first) > len(second) else second
        cut = int(min(over, max(1, abs(len(first) - len(second)))))
        del longer[-cut:]
        over -= cut
    return first, second


class JoinedTexts:
    """To a store, the vocabulary of two texts: a mark stands between them. `most`: ids of both, marks not counted."""

    def __init__(self, tokenizer: Tokenizer, most: float) -> None:
        self.tokenizer, self.most, self.size = tokenizer, most, tokenizer.size
        self.specials: SpecialIds = tokenizer.specials

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        sides = [self.tokenizer.encode_batch([text.split(BETWEEN)[side] for text in texts]) for side in (0, 1)]
        return [[*one, int(self.specials.end or 0), *other] for one, other in map(self._fitting, *sides)]

    def _fitting(self, first: list[int], second: list[int]) -> tuple[list[int], list[int]]:
        return fitting(first, second, self.most)

    def to_json(self) -> str:
        return f"two texts of {self.most}\n" + self.tokenizer.to_json()


class TwoTextsInput(TextInput):
    @property
    def _most(self) -> float:
        return self.data.max_length - 2 if self.cuts else float("inf")

    def writer(self) -> Vocabulary:
        return JoinedTexts(self.tokenizer, self._most)

    def texts_of(self, source: str) -> Sequence[str]:
        return source.split(BETWEEN)

    def example(self, pair: Pair) -> Example:
        return Example(self._two(pair.source), (pair.target,))

    # ------------------------------------------------------------------------------------------------------- one's own
    def parse(self, words: Sequence[str]) -> list[tuple[str, str]]:
        return [self._two(word) for word in words]

    def _two(self, one: Any) -> tuple[str, str]:
        """Of a pair, a mapping of both, or a text with a tab or a line end between."""
        found = two_of(one, ("first", "second"), BETWEEN if isinstance(one, str) and BETWEEN in one else "\n")
        if found is None or not all(isinstance(text, str) for text in found):
            raise CallError(
                f"{one!r} is not two texts: give first<TAB>second, or in Python a pair or "
                '{"first": ..., "second": ...}'
            )
        return found[0], found[1]

    def read(self, one: Any) -> TwoTextsItem:
        texts = self._two(one)
        return TwoTextsItem(texts, *fitting(*(self.tokenizer.encode(text) for text in texts), self._most))

    def name(self, one: Any) -> str:
        return " | ".join(self._two(one))

    def word(self, one: Any) -> str:
        return BETWEEN.join(self._two(one))

    def length(self, item: TwoTextsItem) -> int:
        return len(item.first) + len(item.second) + 1 if item.first and item.second else 0

    def collate(self, items: Sequence[TwoTextsItem]) -> Tensor:
        return self.frame.read([[*item.first, self.frame.end, *item.second] for item in items])

    # --------------------------------------------------------------------------------------------------------- looking
    def axis(self, item: TwoTextsItem) -> Axis:
        return two_axis(self.tokenizer, item.texts, (item.first, item.second), self.frame.first, self.frame.end)

    def parts(self, item: TwoTextsItem) -> list[int]:
        before, first = self.frame.before, len(item.first)
        return [before + place for place in range(first + 1 + len(item.second)) if place != first]

    def without(self, item: TwoTextsItem, parts: Collection[int]) -> TwoTextsItem:
        count = len(item.first)
        return item._replace(
            first=[index for place, index in enumerate(item.first) if place not in parts],
            second=[index for place, index in enumerate(item.second, count) if place not in parts],
        )
