"""How well pictures and texts find each other, and how well a picture finds its label among labels never trained on."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.inputs.image.batches import Sight
from regard.inputs.image.prepare import form_of, picture_columns, store_of
from regard.inputs.image.sources import PictureSource
from regard.inputs.image.store import Kept, PictureStore
from regard.metrics.retrieval import AT, blind_recall, ranks, recall
from regard.models.two_towers import TwoTowers
from regard.old_job import Scores
from regard.outputs.text.captioned import skipped
from regard.outputs.vector.match_batches import MatchBatches
from regard.outputs.vector.match_vectors import Vectors


class Found(NamedTuple):
    """Recalls by name, and the same as a table with what chance would give."""

    values: dict[str, float]
    rows: list[dict[str, Any]]


def told_apart(vectors: Vectors, model: TwoTowers, seen: Tensor, entries: Sequence[Kept]) -> Found:
    """Recall at 1, 5 and 10 and the median rank, of each picture among all captions and of each caption among pictures.

    What is said of two pictures in the same words is right for both.
    """
    texts = [text for entry in entries for text in entry.texts]
    places: dict[str, list[int]] = {}  # captions that say the same
    owners: dict[str, list[int]] = {}  # pictures of which it is said
    for place, text in enumerate(texts):
        places.setdefault(text, []).append(place)
    for number, entry in enumerate(entries):
        for text in dict.fromkeys(entry.texts):
            owners.setdefault(text, []).append(number)
    images, captions = vectors.images(model, seen).numpy(), vectors.texts(model, texts).numpy()
    of_picture = [[place for text in dict.fromkeys(entry.texts) for place in places[text]] for entry in entries]
    ways = {
        "image_to_text": (images, captions, of_picture),
        "text_to_image": (captions, images, [owners[text] for text in texts]),
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


@torch.inference_mode()
def mean_loss(model: TwoTowers, batches: MatchBatches) -> float:
    """The mean over pictures, each told apart from those of its batch."""
    device, total, count = next(model.parameters()).device, 0.0, 0
    for batch in batches.epoch(0):
        loss = model(batch.to(device))
        total, count = total + float(loss.total), count + int(loss.count)
    return total / max(1, count)


def scores(vectors: Vectors, model: TwoTowers, store: PictureStore, sight: Sight, batches: MatchBatches) -> Scores:
    """All that `evaluate` says of a store of test pictures."""
    rows = np.arange(len(store))
    found = told_apart(vectors, model, sight(rows, rows, 0), store.entries)
    values = {**found.values, "loss": mean_loss(model, batches), "pictures": float(len(store))}
    if vectors.recipe.data.zero_shot is not None:
        values |= zero_shot(vectors, model, vectors.recipe.data.zero_shot)
    return Scores(values, skipped(store), {"recall, in percent": found.rows})


def zero_shot(vectors: Vectors, model: TwoTowers, where: str) -> dict[str, float]:
    """How often the most likely of all labels is the right one, in percent; and how often a blind guess would be."""
    data = vectors.recipe.data
    source = PictureSource(where, "test", picture_columns(None, None, None, "label"))
    with TemporaryDirectory(prefix="regard-pictures-") as folder:
        store = store_of(source, form_of(data), Path(folder), workers=data.workers)
        store.read.refuse_if(f"data.zero_shot={where}", data.max_bad)
        images = vectors.images(model, torch.from_numpy(store.pixels.copy()))
    labels = sorted({entry.texts[0] for entry in store.entries})
    said = (images @ vectors.labels(model, labels).T).argmax(1).tolist()
    right = [labels[number] == entry.texts[0] for number, entry in zip(said, store.entries, strict=True)]
    return {
        "zero_shot_accuracy": 100 * float(np.mean(right)),
        "zero_shot_by_chance": 100 / len(labels),
        "zero_shot_pictures": float(len(store)),
    }


def spread(texts: Sequence[str], most: int) -> list[str]:
    """At most so many different texts, taken evenly from all of them."""
    different = list(dict.fromkeys(texts))
    step = max(1, -(-len(different) // most))
    return different[::step]
