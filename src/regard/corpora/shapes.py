"""Embedded corpora of pictures: `shapes` and `one-shape`, generated from a seed, and `digits`, real ones of
scikit-learn.

In a recipe, `data.train: corpus:shapes` means `load_pictures("shapes", "train")`.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, UInt8

from regard.corpora.loading import SPLITS, Corpora, QuestionExample
from regard.errors import CallError, pip_install

Box = tuple[float, float, float, float]  # top, left, bottom, right, in pixels


@dataclass(frozen=True)
class NamedThing:
    """A word of a caption (counted from 0 over space-separated words), and the box of the thing it names."""

    word: int
    box: Box


@dataclass(frozen=True)
class Pictured:
    """A picture, its texts (captions, or one label), and the boxes of the nouns of each text."""

    image: UInt8[np.ndarray, "H W C"]
    texts: tuple[str, ...]
    nouns: tuple[tuple[NamedThing, ...], ...] = ()  # one tuple a text; empty if unknown


_PICTURES: Corpora[Iterator[Pictured]] = Corpora(
    "corpus of pictures",
    {
        "shapes": "regard.corpora.shapes:shapes",
        "one-shape": "regard.corpora.shapes:one_shape",
        "digits": "regard.corpora.shapes:digits",
    },
)
load_pictures = _PICTURES.load


TEST_FROM = 1437


def digits(split: str) -> Iterator[Pictured]:
    """Handwritten digits, 8×8 pixels, 1,797 of them: real data that comes with scikit-learn (from the UCI repository).

    The last fifth is for testing (as in scikit-learn's own example, which keeps the order because writers differ
    along it); of the rest every tenth is for validation.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise CallError(f"the corpus 'digits' needs scikit-learn: {pip_install('regard[digits]')}") from None
    found: Any = load_digits()
    images = np.round(found["images"] * (255 / 16)).astype(np.uint8)[..., None]
    for row, (image, label) in enumerate(zip(images, found["target"], strict=True)):
        if split == ("test" if row >= TEST_FROM else "valid" if row % 10 == 9 else "train"):
            yield Pictured(image, (str(label),))


# Pictures of colored shapes in spatial relations, generated from a seed, with captions that are right by
# construction.
#
#     a red circle above a blue square                    two shapes, in one row or column
#     a red circle above a blue square and left of a green cross      three, in the form of an L: the first is its
#     corner
#
# Every picture has four captions: either shape first (or either relation first), with and without "is". The nouns of
# a caption have boxes, to test whether a captioner attends to what it names (the pointing game: Zhang et al. 2016,
# section 4.2, arXiv:1608.00507).
#
# The caption determines the split, by a hash that is the same for all four captions: no sentence of one split is in
# another, whatever the seed and the sizes. So a test caption is always a new combination of known words.

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


def _nouns(text: str, things: list[Thing]) -> tuple[NamedThing, ...]:
    places = [place for place, word in enumerate(text.split()) if word in SHAPES]
    return tuple(NamedThing(place, thing.box) for place, thing in zip(places, things, strict=True))


EACH = {"train": 40, "valid": 5, "test": 10}  # pictures of each kind


def one_shape(split: str, seed: int = 0) -> Iterator[Pictured]:
    """One colored shape per picture, with its name as the label: "red circle", 30 of them.

    The pictures are like those of `shapes`, with one thing each. A model trained on sentences about two and three
    shapes can be tested on single names: zero-shot classification.
    """
    chance = np.random.default_rng([seed, SPLITS.index(split)])
    unit = SIDE / CELLS
    for _ in range(EACH[split]):
        for shape in SHAPES:
            for color in COLORS:
                row, column = (chance.integers(0, CELLS, 2) + 0.5 + chance.uniform(-0.1, 0.1, 2)) * unit
                radius = chance.uniform(0.3, 0.4) * unit
                thing = Thing(color, shape, float(row), float(column), float(radius))
                scene = Scene(thing, (), int(chance.integers(225, 256)))
                yield Pictured(paint(scene), (f"{color} {shape}",))


# Questions about the pictures of `shapes`, each with one right answer by construction.
#
#     what color is the circle?              red              only where there is one circle
#     what shape is the red thing?           circle           only where there is one red thing
#     how many circles are there?            2                of a shape or of a color
#     what is left of the triangle?          a red circle     only where one thing is on that side
#     is there a red circle?                 yes              no: often the color and the shape are there, but apart
#     is the circle above the square?        no
#     what is in the picture?                a red circle and a blue square      as one reads: from the top, from the
#     left
#     what do you see?                       a red circle and a blue square
#
# Every picture has a question of each kind with a unique answer. The answers to one question are about equally
# frequent, so a model without the picture is not much better than chance: see `blind` in docs/ask.md. The boxes are
# of the things that a question is about, including its answer, as shares of the picture's height and width. A
# question about an absent thing has none.
#
# The splits are those of `shapes`: no scene of one split is in another.

Found = tuple[str, str, list[Thing]]  # a question, its answer, and the things that it is about


def shapes_questions(split: str, size: int | None = None, seed: int = 0, side: int = SIDE) -> Iterator[QuestionExample]:
    """Yield questions about the first `size` pictures of a split; by default about all that `shapes` has."""
    for row, scene in enumerate(islice(stream(split, seed, side), SIZES[split] if size is None else size)):
        chance = np.random.default_rng([seed, tuple(SIZES).index(split), row])
        image = paint(scene, side)
        for kind in KINDS:
            found = kind(scene, chance)
            if found is not None:
                question, answer, things = found
                boxes = tuple(tuple(edge / side for edge in thing.box) for thing in things)
                yield QuestionExample(f"corpus:shapes#{row} ({split})", image, question, answer, boxes)


def _color(scene: Scene, chance: np.random.Generator) -> Found | None:
    thing = _one(_unique_things(scene, "shape"), chance)
    return thing and (f"what color is the {thing.shape}?", thing.color, [thing])


def _shape(scene: Scene, chance: np.random.Generator) -> Found | None:
    thing = _one(_unique_things(scene, "color"), chance)
    return thing and (f"what shape is the {thing.color} thing?", thing.shape, [thing])


def _count(scene: Scene, chance: np.random.Generator) -> Found:
    """Return a question about a count. Equal things are rare, so they are sampled more often."""
    groups = {_several(shape): [thing for thing in scene.things if thing.shape == shape] for shape in SHAPES}
    groups |= {f"{color} things": [thing for thing in scene.things if thing.color == color] for color in COLORS}
    most = max(map(len, groups.values()))
    wanted = most if most > 1 and chance.random() < 2 / 3 else int(chance.integers(0, 2))
    name = str(chance.choice([name for name, things in groups.items() if len(things) == wanted]))
    return f"how many {name} are there?", str(wanted), groups[name]


def _ask_beside(scene: Scene, chance: np.random.Generator) -> Found:
    """Return a question about a neighbor. Of three things only the corner has one thing on a side; for the others, that
    side has the corner and what is beyond it."""
    ways = [(RELATIONS[relation][0], scene.first, other) for relation, other in scene.others]
    if len(scene.others) == 1:
        ways += [(relation, other, scene.first) for relation, other in scene.others]
    relation, place, answer = ways[chance.integers(len(ways))]
    return f"what is {relation} the {_thing_name(place, scene)}?", answer.name, [answer, place]


def _there(scene: Scene, chance: np.random.Generator) -> Found:
    if chance.random() < 0.5:
        thing = scene.things[chance.integers(len(scene.things))]
        return f"is there {thing.name}?", "yes", [thing]
    there = {thing.name for thing in scene.things}
    parts = [Thing(one.color, other.shape) for one in scene.things for other in scene.things]
    apart = [thing for thing in parts if thing.name not in there]
    others = [Thing(color, shape) for color in COLORS for shape in SHAPES]
    absent = apart if apart and chance.random() < 0.5 else [thing for thing in others if thing.name not in there]
    return f"is there {absent[chance.integers(len(absent))].name}?", "no", []


def _stands(scene: Scene, chance: np.random.Generator) -> Found:
    relation, other = scene.others[chance.integers(len(scene.others))]
    one, other = (scene.first, other)
    if chance.random() < 0.5:
        one, other, relation = other, one, RELATIONS[relation][0]
    yes = chance.random() < 0.5
    said = relation if yes else str(chance.choice([name for name in RELATIONS if name != relation]))
    question = f"is the {_thing_name(one, scene)} {said} the {_thing_name(other, scene)}?"
    return question, "yes" if yes else "no", [one, other]


def _all(scene: Scene, chance: np.random.Generator) -> Found:
    return "what is in the picture?", *_in_order(scene)


def _ask_exists(scene: Scene, chance: np.random.Generator) -> Found:
    return "what do you see?", *_in_order(scene)


def _in_order(scene: Scene) -> tuple[str, list[Thing]]:
    """Return the things in reading order: from top to bottom, then from left to right."""

    def place(thing: Thing) -> tuple[int, float]:
        below = round((thing.row - scene.first.row) / (3 * thing.radius))  # rows of the grid
        return below, thing.column

    things = sorted(scene.things, key=place)
    return " and ".join(thing.name for thing in things), things


KINDS: tuple[Callable[[Scene, np.random.Generator], Found | None], ...] = (
    _color, _shape, _count, _ask_beside, _there, _stands, _all, _ask_exists,
)  # fmt: skip


def _unique_things(scene: Scene, by: str) -> list[Thing]:
    """Return the things with a unique shape, or a unique color."""
    often = Counter(getattr(thing, by) for thing in scene.things)
    return [thing for thing in scene.things if often[getattr(thing, by)] == 1]


def _one(things: list[Thing], chance: np.random.Generator) -> Thing | None:
    return things[chance.integers(len(things))] if things else None


def _thing_name(thing: Thing, scene: Scene) -> str:
    """Return the shape, with the color if the shape is ambiguous."""
    return thing.shape if thing in _unique_things(scene, "shape") else f"{thing.color} {thing.shape}"


def _several(shape: str) -> str:
    return f"{shape}es" if shape.endswith("s") else f"{shape}s"
