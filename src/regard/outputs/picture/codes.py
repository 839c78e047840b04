"""Conversion of codes to pictures and of sentences to codes, with any backend. Needs no torch.

Write   prompts → tokens, as they are generated
Paint   codes of pictures, and how many of each are drawn so far (None: all of them) → pixels, B H W C
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.look.axis import Axis, Token, axis
from regard.look.backdrop import to_png
from regard.look.placing import Sides, Table
from regard.look.records import Attention
from regard.look.said import Said
from regard.outputs.picture.result import Drawing
from regard.outputs.result import Candidate
from regard.special_tokens import START, UNK

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


def ranked(scores: Iterable[float], drawn: Sequence[Drawn]) -> list[tuple[float, Drawn]]:
    """Sort the drawings by score, best first."""
    return sorted(zip(scores, drawn, strict=True), key=lambda one: -one[0])


def painted(paint: Paint, codes: Sequence[Codes], drawn: np.ndarray | None = None) -> np.ndarray:
    """Paint the codes in batches."""
    table, groups = np.stack(codes), range(0, len(codes), AT_ONCE)
    return np.concatenate([
        paint(table[start : start + AT_ONCE], None if drawn is None else drawn[start : start + AT_ONCE])
        for start in groups
    ])  # fmt: skip


def drawing(text: str, best: Sequence[tuple[float, Drawn]], paint: Paint, tokenizer: Tokenizer) -> Drawing:
    outputs = [Candidate(as_text(one.codes), one.log_probability, score) for score, one in best]
    pictures = painted(paint, [one.codes for _, one in best])
    return Drawing(text, outputs, None, tuple(pictures), unknown_words(tokenizer, text))


def unknown_words(tokenizer: Tokenizer, text: str) -> tuple[str, ...]:
    pairs = zip(tokenizer.encode(text), tokenizer.spans(text), strict=True)
    return tuple(text[span.start : span.end] for token, span in pairs if token == UNK)


def as_text(codes: Codes) -> str:
    return " ".join(map(str, codes.tolist()))


# -------------------------------------------------------------------------------------------------------------- looking
def film(paint: Paint, codes: Codes, grid: tuple[int, int]) -> Said:
    """Return the picture as it is drawn: after each region, or every few regions if there are many. Regions not drawn
    yet are transparent; the others are decoded with the mean of all codes for the missing regions.
    """
    drawn = np.unique([*range(1, len(codes) + 1, -(-len(codes) // MOST_FRAMES)), len(codes)])
    pictures = painted(paint, [codes] * len(drawn), drawn)
    rows, columns = (np.arange(side) * parts // side for side, parts in zip(pictures.shape[1:3], grid, strict=True))
    there = (np.arange(len(codes)) < drawn[:, None]).reshape(-1, *grid)[:, rows][:, :, columns]
    seen = np.where(there[..., None], np.uint8(255), np.uint8(0))
    colors = np.broadcast_to(pictures, (*pictures.shape[:3], 3))
    frames = tuple(to_png(one) for one in np.concatenate([colors, seen], axis=3))
    return Said("drawing", frames=frames, regions=tuple(drawn.tolist()))


def axes_of(input: Any, item: Any, picture: np.ndarray, grid: tuple[int, int]) -> dict[str, Axis]:
    """Return the axes: the sentence as the decoder reads it, and the regions of the picture."""
    words = input.axis(item)
    after = replace(words, tokens=(Token(input.tokenizer.labels([START])[0], special=True), *words.tokens))
    return {"source": after, "target": axis(grid=grid, image=picture)}


def words_and_regions(offset: int) -> Callable[[Sides, Sequence[Table]], list[Attention]]:
    """Return a `place` function for a decoder. Its rows and columns are <s>, the sentence, its padding, and the
    regions but the last; `offset` is the row of the first region.
    """

    def place(case: Sides, tables: Sequence[Table]) -> list[Attention]:
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
