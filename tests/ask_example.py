"""A few pictures and questions about them, for tests that learn them by heart."""

import itertools
import json

import numpy as np
import yaml
from PIL import Image

from picture_example import COLORS
from regard.data.pairs import Columns

COLUMNS = Columns({"image": None, "question": None, "answer": None})


def rows():
    """Two colors side by side, and three questions about each picture."""
    for number, (left, right) in enumerate(itertools.permutations(COLORS, 2)):
        yield f"{number}.png", "what is on the left?", left
        yield f"{number}.png", "what is on the right?", right
        yield f"{number}.png", "is there red?", "yes" if "red" in (left, right) else "no"


def write_questions(folder, form="jsonl"):
    for number, colors in enumerate(itertools.permutations(COLORS, 2)):
        pixels = np.empty((10, 15, 3), np.uint8)
        pixels[:, :7], pixels[:, 7:] = (COLORS[color] for color in colors)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    names = COLUMNS.sides
    if form == "jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows()]
    else:
        lines = [{"tsv": "\t", "csv": ","}[form].join(row) for row in (names, *rows())]
    file = folder / f"list.{form}"
    file.write_text("\n".join(lines) + "\n")
    return file


def tree(file, **model):
    return {
        "job": "ask",
        "data": {"train": str(file), "valid": str(file), "test": str(file), "height": 12, "width": 20},
        "model": {
            "kind": "transformer", "width": 32, "heads": 4, "feed_forward": 48, "joint_layers": 1, "decoder_layers": 1,
            "dropout": 0.0, "label_smoothing": 0.0, "encoder": {"kind": "cnn", "stages": [16, 24]}, **model,
        },
        "training": {
            "max_tokens": 800, "max_steps": 240, "max_epochs": None, "learning_rate": 5e-3, "warmup": 10,
            "schedule": "cosine", "validate_every": 120,
        },
        "decoding": {"beam": 2, "max_length": 5},
    }  # fmt: skip


def written(file, tree):
    place = file.parent / "recipe.yaml"
    place.write_text(yaml.safe_dump(tree))
    return place
