"""How well pictures and texts find each other."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.metrics.retrieval import AT, blind_recall, ranks, recall


class Found(NamedTuple):
    """Recalls by name, and the same as a table with what chance would give."""

    values: dict[str, float]
    rows: list[dict[str, Any]]


def told_apart(
    images: Float[np.ndarray, "N D"], captions: Float[np.ndarray, "M D"], texts: Sequence[Sequence[str]]
) -> Found:
    """Recall at 1, 5 and 10 and the median rank, of each picture among all captions and of each caption among pictures.

    `texts`: the captions of each picture, in the order of their vectors. What is said of two pictures in the same words
    is right for both.
    """
    places: dict[str, list[int]] = {}  # captions that say the same
    owners: dict[str, list[int]] = {}  # pictures of which it is said
    said = [text for some in texts for text in some]
    for place, text in enumerate(said):
        places.setdefault(text, []).append(place)
    for number, some in enumerate(texts):
        for text in dict.fromkeys(some):
            owners.setdefault(text, []).append(number)
    of_picture = [[place for text in dict.fromkeys(some) for place in places[text]] for some in texts]
    ways = {
        "image_to_text": (images, captions, of_picture),
        "text_to_image": (captions, images, [owners[text] for text in said]),
    }
    values: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    for way, (queries, answers, right) in ways.items():
        found = ranks(queries, answers, right)
        values |= {f"{way}_at_{most}": recall(found, most) for most in AT}
        values[f"{way}_median_rank"] = float(np.median(found)) if len(found) else 0.0
        for most in AT:
            blind = blind_recall(right, len(answers), most)
            row = {"way": way.replace("_", " "), "among": len(answers), "recall at": most}
            rows.append({**row, "percent": values[f"{way}_at_{most}"], "by chance": blind})
    return Found(values, rows)


def spread(texts: Sequence[str], most: int) -> list[str]:
    """At most so many different texts, taken evenly from all of them."""
    different = list(dict.fromkeys(texts))
    step = max(1, -(-len(different) // most))
    return different[::step]
