"""A few pictures with captions, for tests that learn them by heart."""

import itertools

import numpy as np
from PIL import Image

COLORS = {"red": (220, 30, 30), "green": (30, 180, 60), "blue": (30, 60, 220), "white": (250, 250, 250)}


def write_pictures(folder):
    """Two colors side by side, 15 × 10 pixels (of no common factor with the model's), and two captions of each."""
    lines = ["image\tsplit\tcaption"]
    for number, (left, right) in enumerate(itertools.permutations(COLORS, 2)):
        pixels = np.empty((10, 15, 3), np.uint8)
        pixels[:, :7], pixels[:, 7:] = COLORS[left], COLORS[right]
        Image.fromarray(pixels).save(folder / f"{number}.png")
        for text in (f"{left} and then {right}", f"{left} before {right}"):
            lines += [f"{number}.png\t{split}\t{text}" for split in ("train", "val", "test")]
    (folder / "list.tsv").write_text("\n".join(lines) + "\n")
    return folder / "list.tsv"
