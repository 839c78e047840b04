"""The axes of an attention table: tokens with their words and their positions in the text.

An axis can also be a grid (regions of an image, row by row) or a time axis (frames of sound, days of a series). It can
then contain the image or signal for the overlay. Sentences need none of these.
"""

import base64
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, UInt8

from regard.errors import CallError

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

# Safe display of untrusted text in a terminal: tokens may contain escape sequences or direction marks.
#
# These are replaced: by ␛ for the escape character, by � if there is no such sign. Line ends stay.

_SIGNS = {code: 0x2400 + code for code in range(0x20) if code != ord("\n")} | {0x7F: 0x2421}
_SIGNS |= dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)


def visible(text: str) -> str:
    return text.translate(_SIGNS)


class Visible:
    """A rich renderable with control characters replaced; colors and styles stay."""

    def __init__(self, drawn: "RenderableType") -> None:
        self._drawn = drawn

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Segment]":
        for segment in console.render(self._drawn, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


# The image, sound or series under an attention overlay.
#
# Records stay small: images have at most 512 pixels a side, signals at most 2,000 time steps. Regions and frames of
# the overlay are much coarser.

MOST_PIXELS, MOST_STEPS = 512, 2000


def image_array(image: Any) -> UInt8[np.ndarray, "H W 3"]:
    """Convert from Pillow, numpy or torch: 1, 3 or 4 channels, last or first; 0 to 255, or 0.0 to 1.0."""
    array = np.asarray(image.detach().float().cpu() if hasattr(image, "detach") else image)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3, 4):
        array = np.moveaxis(array, 0, 2)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or not array.size:
        raise CallError(f"an image is rows × columns, with 1, 3 or 4 channels, not of shape {array.shape}")
    if np.issubdtype(array.dtype, np.floating):
        if not np.isfinite(array).all() or array.min() < -1e-3 or array.max() > 1 + 1e-3:
            raise CallError("an image of fractions must lie between 0 and 1: undo the normalization first")
        array = np.round(array * 255)
    array = np.clip(array, 0, 255).astype(np.uint8)
    array = np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array[:, :, :3]
    if max(array.shape) > MOST_PIXELS:
        array = _smaller(array)
    return np.ascontiguousarray(array)


def signal_array(signal: Any) -> Float[np.ndarray, "*F N"]:
    """Convert a series of N numbers, or a spectrogram of F bands (lowest first) × N steps."""
    array = np.asarray(signal.detach().float().cpu() if hasattr(signal, "detach") else signal, dtype=np.float32)
    if array.ndim not in (1, 2) or not array.size:
        raise CallError(f"a signal is a series, or a spectrogram of bands × steps, not of shape {array.shape}")
    if not np.isfinite(array).all():
        raise CallError("a signal must be finite: fill missing values first")
    steps = array.shape[-1]
    if steps > MOST_STEPS:  # mean of neighbors for a spectrogram; peaks for a wave, as only they are visible
        starts = np.arange(MOST_STEPS) * steps // MOST_STEPS
        if array.ndim == 2:
            array = np.add.reduceat(array, starts, axis=1) / np.diff(np.append(starts, steps))
        else:
            groups = np.split(array, starts[1:])
            array = np.array([group[np.abs(group - array.mean()).argmax()] for group in groups])
    return array.astype(np.float32)


def to_png(image: UInt8[np.ndarray, "H W C"]) -> str:
    """Encode as PNG in base 64, for pages and JSON."""
    from PIL import Image  # comes with matplotlib

    file = io.BytesIO()
    Image.fromarray(image).save(file, format="PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def from_png(text: str) -> UInt8[np.ndarray, "H W 3"]:
    from PIL import Image

    return np.array(Image.open(io.BytesIO(base64.b64decode(text)), formats=["PNG"]).convert("RGB"))


def _smaller(array: UInt8[np.ndarray, "H W 3"]) -> UInt8[np.ndarray, "h w 3"]:
    from PIL import Image

    picture = Image.fromarray(array)
    picture.thumbnail((MOST_PIXELS, MOST_PIXELS))
    return np.array(picture)


Group = tuple[int, int]  # tokens start ≤ i < stop that are merged into one

#: Tokens that are treated as special if only their text is known.
SPECIALS = frozenset(
    ("<pad>", "<s>", "</s>", "[PAD]", "[CLS]", "[SEP]", "[BOS]", "[EOS]", "<bos>", "<eos>", "<|endoftext|>")
)


@dataclass(frozen=True)
class Token:
    """A token of an axis.

    text     as displayed
    span     first character, and the one after the last, in the text of the axis
    word     number of its word
    unknown  not in the vocabulary: the model reads <unk> instead
    """

    text: str
    span: tuple[int, int] | None = None
    word: int | None = None
    special: bool = False
    unknown: bool = False


@dataclass(frozen=True)
class Axis:
    tokens: tuple[Token, ...]
    text: str = ""
    grid: tuple[int, int] | None = None  # rows × columns of an image's regions: the tokens that lie `upon` it
    times: tuple[float, ...] | None = None  # start of each token (ignored for special tokens)
    until: float | None = None  # end of the last token
    unit: str = "s"  # of times
    after: int = 0  # number of tokens at the end from another input: the words of a question after the regions
    # Model input under the grid or along the times. (Not compared: `==` of arrays is elementwise.)
    image: UInt8[np.ndarray, "H W 3"] | None = field(default=None, compare=False)
    signal: Float[np.ndarray, "*F N"] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.grid is not None and self.grid[0] * self.grid[1] != len(self.upon()):
            raise CallError(f"a grid of {self.grid[0]} × {self.grid[1]} does not fit {len(self.upon())} tokens")
        if self.times is not None and len(self.times) != len(self.tokens):
            raise CallError(f"{len(self.times)} times do not fit {len(self.tokens)} tokens")
        if self.times is not None and (np.diff(self.edges) < 0).any():
            raise CallError("times decrease: give the start of each token, in order")
        if self.image is not None and self.grid is None:
            raise CallError("an image needs the grid of its regions: grid=(rows, columns)")
        if self.signal is not None and self.times is None:
            raise CallError("a signal needs the times at which its tokens begin: times=[0.0, 0.04, ...]")
        for token in self.tokens:
            if token.span is not None and not 0 <= token.span[0] <= token.span[1] <= len(self.text):
                raise CallError(f"token {token.text!r}: the span {token.span} is not inside the text")

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def labels(self) -> list[str]:
        return [token.text for token in self.tokens]

    def words(self) -> list[Group]:
        """Return the token range of each word, in order; special tokens are separate."""
        if any(token.word is None and not token.special for token in self.tokens):
            raise CallError(
                "the words of these tokens are unknown: give them as regard.look.axis(labels, words=[0, 0, 1, ...])"
            )
        return self._groups(lambda place, token: ("special", place) if token.special else ("word", token.word))

    def characters(self) -> list[Group]:
        """Return the token range of each character, in order. Tokens other than bytes stay separate."""
        return self._groups(
            lambda place, token: ("place", place) if token.special or not token.span else ("start", token.span[0])
        )

    @property
    def edges(self) -> Float[np.ndarray, " T1"]:
        """Start times of the tokens of the signal, then the end time of the last one."""
        times = [self.times[place] for place in self.upon()] if self.times else []
        step = times[-1] - times[-2] if len(times) > 1 else 1.0
        return np.array([*times, times[-1] + step if self.until is None else self.until] if times else [])

    @property
    def dated(self) -> bool:
        """Whether token labels are dates or similar, not numbers in `unit`."""
        first = self.tokens[self.upon()[0]].text if self.times and self.upon() else "0"
        return not first.removesuffix(self.unit).strip().lstrip("-").replace(".", "", 1).isdecimal()

    def moment(self, number: float) -> str:
        """Return a time with its unit: "1.07 s", but "line 34"."""
        return f"{self.unit} {number:.4g}" if len(self.unit) > 3 else f"{number:.4g} {self.unit}".strip()

    def count_words(self) -> int:
        """Return the number of words; 0 if tokens have no word numbers."""
        return 1 + max((token.word for token in self.tokens if token.word is not None), default=-1)

    def real(self) -> list[int]:
        """Return the positions of tokens that are not special."""
        return [place for place, token in enumerate(self.tokens) if not token.special]

    def upon(self) -> list[int]:
        """Return the positions of tokens on the image or signal: not special, and before the last `after`."""
        return [place for place in self.real() if place < len(self.tokens) - self.after]

    def merge_pieces(self, groups: Sequence[Group]) -> "Axis":
        if self.grid is not None:
            raise CallError("regions of an image cannot be merged into words")
        times = None if self.times is None else tuple(self.times[start] for start, _ in groups)
        after = sum(start >= len(self.tokens) - self.after for start, _ in groups)
        return replace(self, tokens=tuple(self._as_one(*group) for group in groups), times=times, after=after)

    def taken(self, places: Sequence[int]) -> "Axis":
        times = None if self.times is None else tuple(self.times[place] for place in places)
        whole = set(self.upon()) <= set(places)  # a part of a grid is not a grid
        parts = {"grid": self.grid, "image": self.image} if whole else {"grid": None, "image": None}
        after = sum(place >= len(self.tokens) - self.after for place in places)
        return replace(self, tokens=tuple(self.tokens[place] for place in places), times=times, after=after, **parts)

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


def join_axes(first: Axis, second: Axis) -> Axis:
    """Concatenate two axes; the result keeps the image or signal of the first."""
    shift = len(first.text) + 1 if first.text else 0
    words = first.count_words()
    moved = (
        replace(
            token,
            span=None if token.span is None else (token.span[0] + shift, token.span[1] + shift),
            word=None if token.word is None else token.word + words,
        )
        for token in second.tokens
    )
    times = None if first.times is None else (*first.times, *(first.times[-1:] * len(second)))
    text = f"{first.text} {second.text}" if first.text else second.text
    return replace(first, tokens=(*first.tokens, *moved), text=text, times=times, after=len(second))


def axis(
    labels: Iterable[str] | None = None,
    *,
    words: Sequence[int | None] | None = None,
    specials: Iterable[str] = SPECIALS,
    grid: tuple[int, int] | None = None,
    image: Any = None,
    times: Sequence[float] | None = None,
    until: float | None = None,
    unit: str = "s",
    signal: Any = None,
) -> Axis:
    """Make an axis from plain labels (optional for regions of an image and frames of a signal).

    words    for each label, which word it belongs to; None for special tokens
    grid     rows × columns of image regions, row by row; special labels are not counted
    image    the input image (Pillow, numpy or torch), of any size: the grid covers all of it
    times    start of each label, in `unit`; `until`: end of the last one
    signal   a series or a spectrogram (bands × steps), from the first time to `until`
    """
    labels, specials = _name_labels(labels, grid, times, unit), frozenset(specials)
    if any(not isinstance(label, str) for label in labels):
        raise CallError("labels must be strings: decode the ids first")
    if words is not None and len(words) != len(labels):
        raise CallError(f"{len(words)} words do not fit {len(labels)} labels")
    numbers = [None] * len(labels) if words is None else list(words)
    tokens = (
        Token(label, word=word, special=label in specials or (words is not None and word is None))
        for label, word in zip(labels, numbers, strict=True)
    )
    return Axis(
        tuple(tokens), grid=grid, times=None if times is None else tuple(map(float, times)),
        until=None if until is None else float(until), unit=unit,
        image=None if image is None else image_array(image), signal=None if signal is None else signal_array(signal),
    )  # fmt: skip


def whole(text: str) -> Axis:
    """Return an axis with the whole text as one token, such as a label."""
    return Axis((Token(text, (0, len(text)), 0),), text)


def _name_labels(
    labels: Iterable[str] | None, grid: tuple[int, int] | None, times: Sequence[float] | None, unit: str
) -> list[str]:
    if labels is not None:
        return list(labels)
    if grid is not None:
        return [f"row {row + 1}, column {column + 1}" for row in range(grid[0]) for column in range(grid[1])]
    if times is not None:
        return [f"{time:g} {unit}".strip() for time in times]
    raise CallError("an axis needs labels, a grid or times")


def exchange_words(text: Any, words: str) -> str:
    """Replace words in a text; `words` is "OLD=NEW", such as "red=blue"."""
    old, equals, new = (part.strip() for part in words.partition("="))
    if not (old and equals and new):
        raise CallError(f"exchange={words!r}: write OLD=NEW, a word of the input and its replacement, such as red=blue")
    if not isinstance(text, str):
        raise CallError("exchange= needs a text as input; for other inputs, use against_input=")
    found, count = re.subn(rf"(?<!\w){re.escape(old)}(?!\w)", lambda match: new, text)
    if not count:
        raise CallError(f"exchange={words!r}: the word {old!r} is not in the input {text!r}")
    return found
