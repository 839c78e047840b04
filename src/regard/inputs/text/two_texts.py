"""Long texts in windows, and two texts that are read as one. No torch.

    <s> first </s> second </s>

Every word of one text can attend to every word of the other. Devlin et al. 2018, section 3 (arXiv:1810.04805), also
add a segment vector to each token. Here, as in Liu et al. 2019 (arXiv:1907.11692), position and separator distinguish
the texts. If both together exceed the limit, each window has a part of the longer one and the other one (at most half
the limit of it).
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from regard.data.pairs import BETWEEN
from regard.data.tokenizer import Tokenizer
from regard.data.windows import windows
from regard.errors import CallError
from regard.inputs.joint_reader import two_of
from regard.inputs.text_axis import two_axis
from regard.look.axis import Axis


class TextItem(NamedTuple):
    text: str
    ids: list[int]


def read_text(tokenizer: Tokenizer, one: object) -> TextItem:
    """Return a whole text with its ids."""
    if not isinstance(one, str):
        raise CallError(f"an input is a text, not {type(one).__name__}")
    return TextItem(one, tokenizer.encode(one))


class LongTextReader:
    """Base class of readers of texts of any length, with torch and without. `most`: ids of a window, without marks."""

    tokenizer: Tokenizer
    most: float

    def whole(self, one: object) -> Any:
        """Return the item of the whole text; items are returned unchanged."""
        return one if type(one) is TextItem else read_text(self.tokenizer, one)

    def read(self, one: object) -> Any:
        """Return the item of a text; of a long one, its first window."""
        return next(self.windows(one))

    def windows(self, one: object) -> Iterator[Any]:
        """Cut a text of any length into windows of `most` ids that overlap by a quarter."""
        item = self.whole(one)
        for start, end in windows(len(item.ids), int(self.most)):
            yield item._replace(ids=[*map(int, item.ids[start:end])])

    def look_note(self, one: object) -> str:
        more = len([*self.windows(one)]) > 1
        return "this input is longer than the model reads at once: `look` shows its first window" if more else ""

    def ids_of(self, item: Any) -> list[int]:
        """Return the ids of an item, without the marks around them."""
        return item.ids


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


class TwoTextsReader(LongTextReader):
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

    def whole(self, one: object) -> TwoTextsItem:
        """Return the item of two whole texts; items are returned unchanged."""
        if type(one) is TwoTextsItem:
            return one
        texts = self.two(one)
        first, second = (self.tokenizer.encode(text) for text in texts)
        return TwoTextsItem(texts, first, second)

    def read(self, one: object) -> TwoTextsItem:
        """Return the item of two texts; of long ones, their first window."""
        return next(self.windows(one))

    def windows(self, one: object) -> Iterator[TwoTextsItem]:
        """Cut the longer text into windows that overlap by a quarter. Each has the other text, or its beginning."""
        item = self.whole(one)
        first, second = ([*map(int, ids)] for ids in (item.first, item.second))
        kept = fitting([*first], [*second], self.most)
        side = int(len(first) <= len(second))
        longer = second if side else first
        for start, end in windows(len(longer), max(1, len(kept[side]))):
            part = longer[start:end]
            yield TwoTextsItem(item.texts, *((kept[0], part) if side else (part, kept[1])))

    def name(self, one: Any) -> str:
        return " | ".join(self.two(one))

    def word(self, one: Any) -> str:
        """Join both texts by a line end: on the web page, a tab separates two inputs."""
        return "\n".join(self.two(one))

    def length(self, item: TwoTextsItem) -> int:
        """Number of tokens; 0 if one of the two is empty."""
        return len(item.first) + len(item.second) + 1 if item.first and item.second else 0

    def ids_of(self, item: TwoTextsItem) -> list[int]:
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
