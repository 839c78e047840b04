"""Pictures of colored shapes in spatial relations, generated from a seed, with captions that are right by construction.

    a red circle above a blue square                    two shapes, in one row or column
    a red circle above a blue square and left of a green cross      three, in the form of an L: the first is its corner

Every picture has four captions: either shape first (or either relation first), with and without "is". The nouns of a
caption have boxes, to test whether a captioner attends to what it names (the pointing game: Zhang et al. 2016, section
4.2, arXiv:1608.00507).

The caption determines the split, by a hash that is the same for all four captions: no sentence of one split is in
another, whatever the seed and the sizes. So a test caption is always a new combination of known words.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from jaxtyping import Bool, Float, UInt8

from regard.corpora.pictures import Box, Noun, Pictured

SIZES = {"train": 4000, "valid": 200, "test": 500}
SIDE = 48  # pixels
CELLS = 3  # shapes are in a grid of 3 × 3
SHADES = 3  # each pixel is the mean of 3 × 3 points

COLORS = {
    "red": (214, 40, 40), "green": (46, 160, 67), "blue": (40, 90, 214),
    "yellow": (240, 200, 30), "purple": (140, 60, 170), "black": (30, 30, 30),
}  # fmt: skip
SHAPES = ("circle", "square", "triangle", "diamond", "cross")
#: relation → what it is from the other side, and the step (rows, columns) from the first shape to the second
RELATIONS = {
    "above": ("below", (1, 0)), "below": ("above", (-1, 0)),
    "left of": ("right of", (0, 1)), "right of": ("left of", (0, -1)),
}  # fmt: skip


@dataclass(frozen=True)
class Thing:
    """A colored shape: its center in pixels (row, column), and its radius."""

    color: str
    shape: str
    row: float = 0.0
    column: float = 0.0
    radius: float = 0.0

    @property
    def name(self) -> str:
        return f"a {self.color} {self.shape}"

    @property
    def box(self) -> Box:
        return self.row - self.radius, self.column - self.radius, self.row + self.radius, self.column + self.radius


@dataclass(frozen=True)
class Scene:
    """A scene: `first` is in a relation to each of the others: [("above", thing), ("left of", thing)]."""

    first: Thing
    others: tuple[tuple[str, Thing], ...]
    ground: int = 255  # shade of the background

    @property
    def things(self) -> tuple[Thing, ...]:
        return self.first, *(thing for _, thing in self.others)

    def captions(self) -> list[tuple[str, list[Thing]]]:
        """Return each caption with the things that its nouns name, in order."""
        ways: list[tuple[Thing, tuple[tuple[str, Thing], ...]]] = [(self.first, self.others)]
        if len(self.others) == 1:
            relation, other = self.others[0]
            ways.append((other, ((RELATIONS[relation][0], self.first),)))
        else:
            ways.append((self.first, self.others[::-1]))
        return [
            (f"{first.name} {verb}{' and '.join(f'{relation} {thing.name}' for relation, thing in others)}",
             [first, *(thing for _, thing in others)])
            for verb in ("", "is ")
            for first, others in ways
        ]  # fmt: skip

    @property
    def split(self) -> str:
        bucket = zlib.crc32(min(text for text, _ in self.captions()).encode()) % 100
        return "valid" if bucket < 5 else "test" if bucket < 15 else "train"


def draw_scene(chance: np.random.Generator, side: int = SIDE) -> Scene:
    """Return two or three different things, the others next to the first in different directions."""
    kinds = chance.permutation(len(COLORS) * len(SHAPES))[: chance.integers(2, 4)]
    things = [Thing(tuple(COLORS)[kind % len(COLORS)], SHAPES[kind // len(COLORS)]) for kind in kinds]
    row, column = chance.integers(0, CELLS, 2).tolist()
    # One vertical and one horizontal relation, as far as the grid allows; for two things one of them.
    upright = str(chance.choice([r for r in ("above", "below") if 0 <= row + RELATIONS[r][1][0] < CELLS]))
    level = str(chance.choice([r for r in ("left of", "right of") if 0 <= column + RELATIONS[r][1][1] < CELLS]))
    relations = chance.permutation([upright, level])[: len(things) - 1].tolist()
    steps = [(0, 0), *(RELATIONS[relation][1] for relation in relations)]
    unit = side / CELLS
    placed = []
    for thing, (down, right) in zip(things, steps, strict=True):
        middle = (np.array([row + down, column + right]) + 0.5 + chance.uniform(-0.1, 0.1, 2)) * unit
        radius = chance.uniform(0.3, 0.4) * unit
        placed.append(replace(thing, row=float(middle[0]), column=float(middle[1]), radius=float(radius)))
    others = tuple(zip(relations, placed[1:], strict=True))
    return Scene(placed[0], others, int(chance.integers(225, 256)))


def paint(scene: Scene, side: int = SIDE) -> UInt8[np.ndarray, "side side 3"]:
    """Render the scene with anti-aliased edges."""
    image = np.full((side, side, 3), float(scene.ground))
    for thing in scene.things:
        top, left = (max(0, int(edge)) for edge in thing.box[:2])
        window = image[top : int(thing.box[2]) + 1, left : int(thing.box[3]) + 1]  # a view
        rows, columns = ((np.arange(size * SHADES) + 0.5) / SHADES for size in window.shape[:2])
        v, u = (rows[:, None] + top - thing.row) / thing.radius, (columns + left - thing.column) / thing.radius
        cover = inside(thing.shape, u, v).reshape(window.shape[0], SHADES, -1, SHADES).mean((1, 3))[..., None]
        window += (np.array(COLORS[thing.color], float) - window) * cover
    return np.round(image).astype(np.uint8)


def inside(shape: str, u: Float[np.ndarray, " C"], v: Float[np.ndarray, "R 1"]) -> Bool[np.ndarray, "R C"]:
    """Return which points belong to a shape of radius 1; u grows to the right, v downwards."""
    if shape == "circle":
        return u**2 + v**2 <= 1
    if shape == "square":
        return np.maximum(np.abs(u), np.abs(v)) <= 0.85
    if shape == "triangle":
        return (np.abs(u) <= (v + 1) / 2) & (v <= 0.9)
    if shape == "diamond":
        return np.abs(u) + np.abs(v) <= 1
    thin, long = np.minimum(np.abs(u), np.abs(v)), np.maximum(np.abs(u), np.abs(v))
    return (thin <= 0.3) & (long <= 1)


def stream(split: str, seed: int = 0, side: int = SIDE) -> Iterator[Scene]:
    """Yield scenes of a split without end. A longer reading begins with the shorter one."""
    chance = np.random.default_rng([seed, tuple(SIZES).index(split)])
    while True:
        scene = draw_scene(chance, side)
        if scene.split == split:
            yield scene


def shapes(split: str, size: int | None = None, seed: int = 0, side: int = SIDE) -> Iterator[Pictured]:
    """Yield the first `size` pictures of a split; by default 4,000, 200 and 500 for train, valid and test."""
    for scene in islice(stream(split, seed, side), SIZES[split] if size is None else size):
        captions = scene.captions()
        yield Pictured(paint(scene, side), tuple(text for text, _ in captions), tuple(_nouns(*one) for one in captions))


def _nouns(text: str, things: list[Thing]) -> tuple[Noun, ...]:
    places = [place for place, word in enumerate(text.split()) if word in SHAPES]
    return tuple(Noun(place, thing.box) for place, thing in zip(places, things, strict=True))
