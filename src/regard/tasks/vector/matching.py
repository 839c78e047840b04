"""Matching of pictures and texts by vectors of length 1 from any backend. Needs no torch.

p(text | picture) = softmax over the texts of scale · cos(picture, text)
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.errors import CallError, RegardError
from regard.tasks.result import Candidate, LabeledPrediction
from regard.tasks.vector.settings import LABEL

CAPTIONS = "captions.json"
Vectors = Float[np.ndarray, "N D"]


def load_captions(folder: Path) -> list[str]:
    """Load the training captions of a run, used if no labels are given."""
    try:
        return json.loads((folder / CAPTIONS).read_text(encoding="utf-8"))
    except OSError as error:
        raise RegardError(f"{folder}: cannot read the captions of the run ({error})") from None


def matchable(input: Any, text: str, most: int) -> Any:
    """Return the item of a text, truncated at the longest length of training."""
    item = input.read(text)
    if not item.ids:
        raise CallError(f"the text {text!r} has no token to match")
    return item._replace(ids=item.ids[:most])


@dataclass(frozen=True)
class Matching:
    """Zero-shot classification; `pictures` and `texts` are functions that return vectors of length 1."""

    recipe: Any
    captions: Sequence[str]
    scale: float
    pictures: Callable[[Sequence[Any]], Vectors]
    texts: Callable[[Sequence[str]], Vectors]

    def predictions(self, names: Sequence[str], inputs: Sequence[Any]) -> list[LabeledPrediction]:
        """Return the best label for each picture (without labels: the best of the kept captions)."""
        labels = self.recipe.decoding.labels or self.captions
        if not labels:
            raise CallError("give the labels to choose from: labels=['a dog', 'a cat']")
        vectors = self.of_labels(labels) if self.recipe.decoding.labels else self.texts(labels)
        scores = self.scale * self.pictures(inputs) @ vectors.T
        scores -= scores.max(1, keepdims=True)
        chances = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        return [self._label_scores(name, labels, chance) for name, chance in zip(names, chances, strict=True)]

    def of_labels(self, labels: Sequence[str]) -> Vectors:
        """Return the mean over all templates, scaled to length 1 (CLIP, section 3.1.4)."""
        filled = [template.replace(LABEL, label) for template in self.recipe.decoding.templates for label in labels]
        vectors = self.texts(filled)
        mean = vectors.reshape(-1, len(labels), vectors.shape[1]).mean(0)
        return mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)

    def _label_scores(self, name: str, labels: Sequence[str], chances: Float[np.ndarray, " N"]) -> LabeledPrediction:
        """Return log-probabilities among these labels; of kept captions, which are many, only those of the best."""
        how = self.recipe.decoding
        order: list[int] = np.argsort(-chances, kind="stable").tolist()
        outputs = [Candidate(labels[n], float(chances[n]), float(np.exp(chances[n]))) for n in order[: how.n_best]]
        told = {labels[number]: float(np.exp(chances[number])) for number in order} if how.labels else {}
        return LabeledPrediction(name, outputs, labels=[outputs[0].text], probabilities=told)

    def cosines(self, inputs: Sequence[Any], texts: Sequence[str]) -> list[float]:
        """Return the cosine of each picture with its text."""
        return (self.pictures(inputs) * self.texts(texts)).sum(1).tolist()
