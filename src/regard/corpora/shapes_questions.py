"""Questions about the pictures of `shapes`, each with one right answer by construction.

    what color is the circle?              red              only where there is one circle
    what shape is the red thing?           circle           only where there is one red thing
    how many circles are there?            2                of a shape or of a color
    what is left of the triangle?          a red circle     only where one thing is on that side
    is there a red circle?                 yes              no: often the color and the shape are there, but apart
    is the circle above the square?        no
    what is in the picture?                a red circle and a blue square      as one reads: from the top, from the left
    what do you see?                       a red circle and a blue square

Every picture has a question of each kind with a unique answer. The answers to one question are about equally frequent,
so a model without the picture is not much better than chance: see `blind` in docs/ask.md. The boxes are of the things
that a question is about, including its answer, as shares of the picture's height and width. A question about an absent
thing has none.

The splits are those of `shapes`: no scene of one split is in another.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from regard.corpora.asked import Asked
from regard.corpora.shapes import COLORS, RELATIONS, SHAPES, SIDE, SIZES, Scene, Thing, paint, stream

Found = tuple[str, str, list[Thing]]  # a question, its answer, and the things that it is about


def shapes_questions(split: str, size: int | None = None, seed: int = 0, side: int = SIDE) -> Iterator[Asked]:
    """Yield questions about the first `size` pictures of a split; by default about all that `shapes` has."""
    for row, scene in enumerate(islice(stream(split, seed, side), SIZES[split] if size is None else size)):
        chance = np.random.default_rng([seed, tuple(SIZES).index(split), row])
        image = paint(scene, side)
        for kind in KINDS:
            found = kind(scene, chance)
            if found is not None:
                question, answer, things = found
                boxes = tuple(tuple(edge / side for edge in thing.box) for thing in things)
                yield Asked(f"corpus:shapes#{row} ({split})", image, question, answer, boxes)


def _color(scene: Scene, chance: np.random.Generator) -> Found | None:
    thing = _one(_alone(scene, "shape"), chance)
    return thing and (f"what color is the {thing.shape}?", thing.color, [thing])


def _shape(scene: Scene, chance: np.random.Generator) -> Found | None:
    thing = _one(_alone(scene, "color"), chance)
    return thing and (f"what shape is the {thing.color} thing?", thing.shape, [thing])


def _count(scene: Scene, chance: np.random.Generator) -> Found:
    """Return a question about a count. Equal things are rare, so they are sampled more often."""
    groups = {_several(shape): [thing for thing in scene.things if thing.shape == shape] for shape in SHAPES}
    groups |= {f"{color} things": [thing for thing in scene.things if thing.color == color] for color in COLORS}
    most = max(map(len, groups.values()))
    wanted = most if most > 1 and chance.random() < 2 / 3 else int(chance.integers(0, 2))
    name = str(chance.choice([name for name, things in groups.items() if len(things) == wanted]))
    return f"how many {name} are there?", str(wanted), groups[name]


def _beside(scene: Scene, chance: np.random.Generator) -> Found:
    """Return a question about a neighbor. Of three things only the corner has one thing on a side; for the others, that
    side has the corner and what is beyond it."""
    ways = [(RELATIONS[relation][0], scene.first, other) for relation, other in scene.others]
    if len(scene.others) == 1:
        ways += [(relation, other, scene.first) for relation, other in scene.others]
    relation, place, answer = ways[chance.integers(len(ways))]
    return f"what is {relation} the {_called(place, scene)}?", answer.name, [answer, place]


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
    question = f"is the {_called(one, scene)} {said} the {_called(other, scene)}?"
    return question, "yes" if yes else "no", [one, other]


def _all(scene: Scene, chance: np.random.Generator) -> Found:
    return "what is in the picture?", *_in_order(scene)


def _seen(scene: Scene, chance: np.random.Generator) -> Found:
    return "what do you see?", *_in_order(scene)


def _in_order(scene: Scene) -> tuple[str, list[Thing]]:
    """Return the things in reading order: from top to bottom, then from left to right."""

    def place(thing: Thing) -> tuple[int, float]:
        below = round((thing.row - scene.first.row) / (3 * thing.radius))  # rows of the grid
        return below, thing.column

    things = sorted(scene.things, key=place)
    return " and ".join(thing.name for thing in things), things


KINDS: tuple[Callable[[Scene, np.random.Generator], Found | None], ...] = (
    _color, _shape, _count, _beside, _there, _stands, _all, _seen,
)  # fmt: skip


def _alone(scene: Scene, by: str) -> list[Thing]:
    """Return the things with a unique shape, or a unique color."""
    often = Counter(getattr(thing, by) for thing in scene.things)
    return [thing for thing in scene.things if often[getattr(thing, by)] == 1]


def _one(things: list[Thing], chance: np.random.Generator) -> Thing | None:
    return things[chance.integers(len(things))] if things else None


def _called(thing: Thing, scene: Scene) -> str:
    """Return the shape, with the color if the shape is ambiguous."""
    return thing.shape if thing in _alone(scene, "shape") else f"{thing.color} {thing.shape}"


def _several(shape: str) -> str:
    return f"{shape}es" if shape.endswith("s") else f"{shape}s"
