"""Which text says best what a picture shows, of vectors of length 1, whoever makes them. No torch.

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
from regard.outputs.result import Candidate, Labeled
from regard.outputs.vector.settings import LABEL

CAPTIONS = "captions.json"
Vectors = Float[np.ndarray, "N D"]


def load_captions(folder: Path) -> list[str]:
    """Those of training that a run keeps, for whoever asks without labels."""
    try:
        return json.loads((folder / CAPTIONS).read_text(encoding="utf-8"))
    except OSError as error:
        raise RegardError(f"{folder}: the run has lost its captions ({error})") from None


def matchable(input: Any, text: str, most: int) -> Any:
    """The item of a text, cut at the longest that training read."""
    item = input.read(text)
    if not item.ids:
        raise CallError(f"the text {text!r} has no token: there is nothing to match")
    return item._replace(ids=item.ids[:most])


@dataclass(frozen=True)
class Matching:
    """`pictures` and `texts` make vectors of length 1 of what they are given."""

    recipe: Any
    captions: Sequence[str]
    scale: float
    pictures: Callable[[Sequence[Any]], Vectors]
    texts: Callable[[Sequence[str]], Vectors]

    def predictions(self, names: Sequence[str], inputs: Sequence[Any]) -> list[Labeled]:
        """Which of the labels (or, without any, of the kept captions) says best what each picture shows."""
        labels = self.recipe.decoding.labels or self.captions
        if not labels:
            raise CallError("say what the pictures may show, to choose from: labels=['a dog', 'a cat']")
        vectors = self.of_labels(labels) if self.recipe.decoding.labels else self.texts(labels)
        scores = self.scale * self.pictures(inputs) @ vectors.T
        scores -= scores.max(1, keepdims=True)
        chances = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        return [self._labeled(name, labels, chance) for name, chance in zip(names, chances, strict=True)]

    def of_labels(self, labels: Sequence[str]) -> Vectors:
        """The mean over all templates, scaled to length 1 (CLIP, section 3.1.4)."""
        filled = [template.replace(LABEL, label) for template in self.recipe.decoding.templates for label in labels]
        vectors = self.texts(filled)
        mean = vectors.reshape(-1, len(labels), vectors.shape[1]).mean(0)
        return mean / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)

    def _labeled(self, name: str, labels: Sequence[str], chances: Float[np.ndarray, " N"]) -> Labeled:
        """Log-probabilities among these labels; of kept captions, which are many, those of the best are told."""
        how = self.recipe.decoding
        order: list[int] = np.argsort(-chances, kind="stable").tolist()
        outputs = [Candidate(labels[n], float(chances[n]), float(np.exp(chances[n]))) for n in order[: how.n_best]]
        told = {labels[number]: float(np.exp(chances[number])) for number in order} if how.labels else {}
        return Labeled(name, outputs, labels=[outputs[0].text], probabilities=told)

    def cosines(self, inputs: Sequence[Any], texts: Sequence[str]) -> list[float]:
        """Of each picture with its text."""
        return (self.pictures(inputs) * self.texts(texts)).sum(1).tolist()
