"""Conversion of codes to pictures and of sentences to codes, with any backend. Needs no torch.

Write   prompts → tokens, as they are generated
Paint   codes of pictures, and how many of each are drawn so far (None: all of them) → pixels, B H W C
"""

import io
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.files import atomic
from regard.inputs.image.decode import pillow
from regard.look.axis import Axis, Token, axis, to_png
from regard.look.placing import AxisPair, PlacedTable
from regard.look.records import Attention, OutputView
from regard.special_tokens import START, UNK
from regard.tasks.result import Candidate, Prediction

# Predictions of pictures: as arrays, as Pillow images, as files.

SIDE, GAP = 192, 8  # size of a picture on a sheet and gap between two, in pixels
Pixels = UInt8[np.ndarray, "H W C"]


@dataclass(frozen=True)
class DrawnPicture(Prediction):
    """Pictures drawn for one sentence, best first; `text` holds the codes of the best, row by row."""

    pictures: tuple[np.ndarray, ...] = ()  # H W C, uint8
    unknown: tuple[str, ...] = ()  # words of the sentence that are not in the vocabulary

    @property
    def picture(self) -> np.ndarray:
        return self.pictures[0]

    @property
    def image(self) -> Any:
        """Return the best picture as a Pillow image."""
        return as_image(self.picture)

    @property
    def note(self) -> str:
        if not self.unknown:
            return ""
        words = ", ".join(map(repr, self.unknown))
        return f"{len(self.unknown)} unknown to the model, which drew without: {words}"

    def as_dict(self) -> dict[str, Any]:
        pictures = [b64encode(_png(as_image(picture))).decode() for picture in self.pictures]
        found = super().as_dict() | {"png": pictures}
        del found["pictures"]  # equal values as numbers
        return found

    def save(self, path: str | Path) -> Path:
        """Write the best picture, pixel by pixel, to a .png file."""
        return write_png(self.image, Path(path))

    def save_with(self, others: Sequence["DrawnPicture"], path: str | Path) -> Path:
        """Write one picture as it is, or several as a sheet, if `path` has a suffix; else write a folder with a file
        for each.
        """
        drawings, path = [self, *others], Path(path)
        if path.suffix and sum(len(one.pictures) for one in drawings) == 1:
            return self.save(path)
        if path.suffix:
            return write_png(sheet([one.pictures for one in drawings]), path)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise CallError(f"{path} already exists and is not empty: give a new folder, or a sheet, FILE.png")
        path.mkdir(parents=True, exist_ok=True)
        for number, one in enumerate(drawings, 1):
            for rank, picture in enumerate(one.pictures, 1):
                name = f"{number:04}.png" if len(one.pictures) == 1 else f"{number:04}-{rank}.png"
                write_png(as_image(picture), path / name)
        return path


def as_image(picture: np.ndarray) -> Any:
    """Return an RGB or grayscale Pillow image."""
    return pillow().fromarray(np.ascontiguousarray(picture[..., 0] if picture.shape[2] == 1 else picture))


def sheet(rows: Sequence[Sequence[np.ndarray]]) -> Any:
    """Return pictures of one size, row by row, enlarged so that single pixels are visible."""
    Image = pillow()
    first = rows[0][0]
    scale = max(1, SIDE // max(first.shape[:2]))
    high, wide = (side * scale + GAP for side in first.shape[:2])
    whole = Image.new("RGB", (wide * max(map(len, rows)) + GAP, high * len(rows) + GAP), "white")
    for row, pictures in enumerate(rows):
        for column, picture in enumerate(pictures):
            large = as_image(picture).resize((wide - GAP, high - GAP), Image.Resampling.NEAREST)
            whole.paste(large.convert("RGB"), (GAP + column * wide, GAP + row * high))
    return whole


def write_png(image: Any, path: Path) -> Path:
    """Write the file atomically."""
    if path.suffix.lower() != ".png":
        raise CallError(f"{path}: a drawing is written as FILE.png")
    return atomic.write_bytes(path, _png(image))


def as_html(image: Any, about: str) -> str:
    return f'<img alt="{about}" src="data:image/png;base64,{b64encode(_png(image)).decode()}">'


def _png(image: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, format="PNG")
    return out.getvalue()


AT_ONCE = 64  # pictures processed together
MOST_FRAMES = 64  # of a film
NO_PICTURE = "a text is not a picture: give a pathlib.Path, an array or a Pillow image"
Codes = Int[np.ndarray, " K"]
Write = Callable[[Sequence[list[int]]], Iterable[Any]]
Paint = Callable[[np.ndarray, np.ndarray | None], np.ndarray]


class Drawn(NamedTuple):
    codes: Codes
    log_probability: float


def drawable(input: Any, text: str, most: int) -> Any:
    """Return the item of a sentence. Raise if it has more than `most` tokens or no known word."""
    item = input.read(text)
    if not item.ids:
        raise CallError("the sentence is empty: describe the picture to draw")
    if len(item.ids) > most:
        raise CallError(f"the sentence has {len(item.ids)} tokens; this model reads at most {most}: {text[:60]!r}...")
    if all(token == UNK for token in item.ids):
        raise CallError(f"no word of {text!r} is in the model's vocabulary: use words of the training data")
    return item


def candidates(write: Write, prompts: Sequence[list[int]], each: int, words: int) -> list[list[Drawn]]:
    """Return `each` drawings for each prompt. Ids of codes start after the `words` ids of the vocabulary."""
    asked = [prompt for prompt in prompts for _ in range(each)]
    codes: list[list[int]] = [[] for _ in asked]
    told = [0.0] * len(asked)
    at_once = max(1, AT_ONCE // each) * each  # equal prompts together: each has its own random numbers
    for start in range(0, len(asked), at_once):
        for written in write(asked[start : start + at_once]):
            codes[start + written.row].append(written.token - words)
            told[start + written.row] += written.log_probability
    drawn = [Drawn(np.array(one), total) for one, total in zip(codes, told, strict=True)]
    return [drawn[start : start + each] for start in range(0, len(drawn), each)]


def rank(scores: Iterable[float], drawn: Sequence[Drawn]) -> list[tuple[float, Drawn]]:
    """Sort the drawings by score, best first."""
    return sorted(zip(scores, drawn, strict=True), key=lambda one: -one[0])


def paint_codes(paint: Paint, codes: Sequence[Codes], drawn: np.ndarray | None = None) -> np.ndarray:
    """Paint the codes in batches."""
    table, groups = np.stack(codes), range(0, len(codes), AT_ONCE)
    return np.concatenate([
        paint(table[start : start + AT_ONCE], None if drawn is None else drawn[start : start + AT_ONCE])
        for start in groups
    ])  # fmt: skip


def drawing(text: str, best: Sequence[tuple[float, Drawn]], paint: Paint, tokenizer: Tokenizer) -> DrawnPicture:
    outputs = [Candidate(as_text(one.codes), one.log_probability, score) for score, one in best]
    pictures = paint_codes(paint, [one.codes for _, one in best])
    return DrawnPicture(text, outputs, None, tuple(pictures), unknown_words(tokenizer, text))


def unknown_words(tokenizer: Tokenizer, text: str) -> tuple[str, ...]:
    pairs = zip(tokenizer.encode(text), tokenizer.spans(text), strict=True)
    return tuple(text[span.start : span.end] for token, span in pairs if token == UNK)


def as_text(codes: Codes) -> str:
    return " ".join(map(str, codes.tolist()))


# -------------------------------------------------------------------------------------------------------------- looking
def film(paint: Paint, codes: Codes, grid: tuple[int, int]) -> OutputView:
    """Return the picture as it is drawn: after each region, or every few regions if there are many. Regions not drawn
    yet are transparent; the others are decoded with the mean of all codes for the missing regions.
    """
    drawn = np.unique([*range(1, len(codes) + 1, -(-len(codes) // MOST_FRAMES)), len(codes)])
    pictures = paint_codes(paint, [codes] * len(drawn), drawn)
    rows, columns = (np.arange(side) * parts // side for side, parts in zip(pictures.shape[1:3], grid, strict=True))
    there = (np.arange(len(codes)) < drawn[:, None]).reshape(-1, *grid)[:, rows][:, :, columns]
    seen = np.where(there[..., None], np.uint8(255), np.uint8(0))
    colors = np.broadcast_to(pictures, (*pictures.shape[:3], 3))
    frames = tuple(to_png(one) for one in np.concatenate([colors, seen], axis=3))
    return OutputView("drawing", frames=frames, regions=tuple(drawn.tolist()))


def axes_of(input: Any, item: Any, picture: np.ndarray, grid: tuple[int, int]) -> dict[str, Axis]:
    """Return the axes: the sentence as the decoder reads it, and the regions of the picture."""
    words = input.axis(item)
    after = replace(words, tokens=(Token(input.tokenizer.labels([START])[0], special=True), *words.tokens))
    return {"source": after, "target": axis(grid=grid, image=picture)}


def words_and_regions(offset: int) -> Callable[[AxisPair, Sequence[PlacedTable]], list[Attention]]:
    """Return a `place` function for a decoder. Its rows and columns are <s>, the sentence, its padding, and the
    regions but the last; `offset` is the row of the first region.
    """

    def place(case: AxisPair, tables: Sequence[PlacedTable]) -> list[Attention]:
        words, found = len(case.axes["source"]), []
        for name, role, weights in tables:
            drawn = weights[:, offset:]  # heads × regions × all tokens read
            before = np.pad(
                drawn[:, :, offset + 1 :], [(0, 0), (0, 0), (0, 1)]
            )  # no position attends to the last region
            found.append(Attention(name, "cross", role.layer, drawn[:, :, :words], "target", "source"))
            found.append(Attention(name, "decoder", role.layer, before, "target", "target"))
        return found

    return place
