"""Two texts, read as one. No torch.

    <s> first </s> second </s>

Every word of one text can attend to every word of the other. Devlin et al. 2018, section 3 (arXiv:1810.04805), also
add a segment vector to each token. Here, as in Liu et al. 2019 (arXiv:1907.11692), position and separator distinguish
the texts. If both together exceed the limit, the longer one is cut.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from regard.data.pairs import BETWEEN
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.inputs.joint_reader import two_of
from regard.inputs.text_axis import two_axis
from regard.look.axis import Axis


class TwoTextsItem(NamedTuple):
    texts: tuple[str, str]
    first: list[int]
    second: list[int]


def fitting(first: list[int], second: list[int], most: int | float) -> tuple[list[int], list[int]]:
    """Cut both texts to a total length: the longer one first, then both equally."""
    over = len(first) + len(second) - most
    while over > 0 and (first or second):
        longer = first if len(first) > len(second) else second
        cut = int(min(over, max(1, abs(len(first) - len(second)))))
        del longer[-cut:]
        over -= cut
    return first, second


class TwoTextsReader:
    """Base class of readers of two texts, with torch and without. `most`: ids of both, without marks; `marks`: the
    token before both, if any, and the one after each of them.
    """

    tokenizer: Tokenizer
    most: Any
    marks: Any

    def parse(self, words: Sequence[str | tuple[str, ...]]) -> list[tuple[str, str]]:
        return [self.two(word) for word in words]

    def is_one(self, value: Any) -> bool:
        """Whether a value is one input: two texts in a tuple are one, a list holds several."""
        plain = isinstance(value, tuple) and len(value) == 2 and all(isinstance(text, str) for text in value)
        both = plain and not any(BETWEEN in text or "\n" in text for text in value)
        return both or super().is_one(value)  # pyright: ignore[reportAttributeAccessIssue]

    def two(self, one: Any) -> tuple[str, str]:
        """Split a pair, a mapping of both, or a text with a tab or a line end."""
        found = two_of(one, ("first", "second"), BETWEEN if isinstance(one, str) and BETWEEN in one else "\n")
        if found is None or not all(isinstance(text, str) for text in found):
            raise CallError(
                f"{one!r} is not two texts: give both, with a tab or on two lines, or in Python a pair or "
                '{"first": ..., "second": ...}'
            )
        return found[0], found[1]

    def read(self, one: Any) -> TwoTextsItem:
        texts = self.two(one)
        first, second = (self.tokenizer.encode(text) for text in texts)
        return TwoTextsItem(texts, *fitting(first, second, self.most))

    def name(self, one: Any) -> str:
        return " | ".join(self.two(one))

    def word(self, one: Any) -> str:
        """Join both texts by a line end: on the web page, a tab separates two inputs."""
        return "\n".join(self.two(one))

    def length(self, item: TwoTextsItem) -> int:
        """Number of tokens; 0 if one of the two is empty."""
        return len(item.first) + len(item.second) + 1 if item.first and item.second else 0

    def joined(self, item: TwoTextsItem) -> list[int]:
        return [*item.first, self.marks[1], *item.second]

    def axis(self, item: TwoTextsItem) -> Axis:
        return two_axis(self.tokenizer, item.texts, (item.first, item.second), *self.marks)

    def parts(self, item: TwoTextsItem) -> list[int]:
        before, first = int(self.marks[0] is not None), len(item.first)
        return [before + place for place in range(first + 1 + len(item.second)) if place != first]

    def without(self, item: TwoTextsItem, parts: Collection[int]) -> TwoTextsItem:
        count = len(item.first)
        return item._replace(
            first=[index for place, index in enumerate(item.first) if place not in parts],
            second=[index for place, index in enumerate(item.second, count) if place not in parts],
        )
