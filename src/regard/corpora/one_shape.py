"""One colored shape per picture, with its name as the label: "red circle", 30 of them.

The pictures are like those of `shapes`, with one thing each. A model trained on sentences about two and three shapes
can be tested on single names: zero-shot classification.
"""

from collections.abc import Iterator

import numpy as np

from regard.corpora.loading import SPLITS
from regard.corpora.pictures import Pictured
from regard.corpora.shapes import CELLS, COLORS, SHAPES, SIDE, Scene, Thing, paint

EACH = {"train": 40, "valid": 5, "test": 10}  # pictures of each kind


def one_shape(split: str, seed: int = 0) -> Iterator[Pictured]:
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
