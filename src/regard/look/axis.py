"""What stands beside a picture of attention: the tokens of one side, with their words and places in the text.

An axis can also be a grid (regions of an image, row by row) or a time axis (frames of sound, days of a series).
Pictures of sentences need neither.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from regard.errors import CallError

Group = tuple[int, int]  # tokens start ≤ i < stop, which become one

#: What is taken for a special token where nothing but its name is known.
SPECIALS = frozenset(
    ("<pad>", "<s>", "</s>", "[PAD]", "[CLS]", "[SEP]", "[BOS]", "[EOS]", "<bos>", "<eos>", "<|endoftext|>")
)


@dataclass(frozen=True)
class Token:
    """`text` as the reader knows it. `span`: its characters in the axis' text. `word`: which word it is a part of."""

    text: str
    span: tuple[int, int] | None = None
    word: int | None = None
    special: bool = False


@dataclass(frozen=True)
class Axis:
    tokens: tuple[Token, ...]
    text: str = ""
    grid: tuple[int, int] | None = None  # rows × columns, where the tokens are regions of an image
    times: tuple[float, ...] | None = None  # seconds, or any other unit, at which each token begins

    def __post_init__(self) -> None:
        if self.grid is not None and self.grid[0] * self.grid[1] != len(self.tokens):
            raise CallError(f"a grid of {self.grid[0]} × {self.grid[1]} does not fit {len(self.tokens)} tokens")
        if self.times is not None and len(self.times) != len(self.tokens):
            raise CallError(f"{len(self.times)} times do not fit {len(self.tokens)} tokens")
        for token in self.tokens:
            if token.span is not None and not 0 <= token.span[0] <= token.span[1] <= len(self.text):
                raise CallError(f"token {token.text!r}: the span {token.span} is not inside the text")

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def labels(self) -> list[str]:
        return [token.text for token in self.tokens]

    def words(self) -> list[Group]:
        """The tokens of each word, in order; a special token stays alone."""
        if any(token.word is None and not token.special for token in self.tokens):
            raise CallError(
                "it is not known which words these tokens belong to: "
                "give them as regard.look.axis(labels, words=[0, 0, 1, ...])"
            )
        return self._groups(lambda place, token: ("special", place) if token.special else ("word", token.word))

    def characters(self) -> list[Group]:
        """The bytes of each character, in order. Other tokens stay as they are."""
        return self._groups(
            lambda place, token: ("place", place) if token.special or not token.span else ("start", token.span[0])
        )

    def real(self) -> list[int]:
        """The places of tokens that are not special."""
        return [place for place, token in enumerate(self.tokens) if not token.special]

    def merged(self, groups: Sequence[Group]) -> "Axis":
        if self.grid is not None:
            raise CallError("regions of an image cannot be merged into words")
        times = None if self.times is None else tuple(self.times[start] for start, _ in groups)
        return replace(self, tokens=tuple(self._as_one(*group) for group in groups), times=times)

    def taken(self, places: Sequence[int]) -> "Axis":
        times = None if self.times is None else tuple(self.times[place] for place in places)
        tokens = tuple(self.tokens[place] for place in places)
        return replace(self, tokens=tokens, times=times, grid=self.grid if len(tokens) == len(self) else None)

    def _groups(self, key: Callable[[int, Token], object]) -> list[Group]:
        numbered = groupby(enumerate(self.tokens), key=lambda item: key(*item))
        places = [[place for place, _ in group] for _, group in numbered]
        return [(group[0], group[-1] + 1) for group in places]

    def _as_one(self, start: int, stop: int) -> Token:
        parts = self.tokens[start:stop]
        first, last = parts[0].span, parts[-1].span
        if len(parts) == 1:
            return parts[0]
        if first is None or last is None:
            return replace(parts[0], text="".join(part.text for part in parts))
        span = (first[0], max(first[0], last[1]))
        return replace(parts[0], text=self.text[slice(*span)].strip() or parts[-1].text, span=span)


def axis(
    labels: Iterable[str],
    *,
    words: Sequence[int | None] | None = None,
    specials: Iterable[str] = SPECIALS,
    grid: tuple[int, int] | None = None,
    times: Sequence[float] | None = None,
) -> Axis:
    """An axis from plain labels. `words` says for each label which word it belongs to, None for special tokens."""
    labels, specials = list(labels), frozenset(specials)
    if any(not isinstance(label, str) for label in labels):
        raise CallError("labels must be strings: decode the ids first")
    if words is not None and len(words) != len(labels):
        raise CallError(f"{len(words)} words do not fit {len(labels)} labels")
    numbers = [None] * len(labels) if words is None else list(words)
    tokens = (
        Token(label, word=word, special=label in specials or (words is not None and word is None))
        for label, word in zip(labels, numbers, strict=True)
    )
    return Axis(tuple(tokens), grid=grid, times=None if times is None else tuple(times))
