"""Pictures and texts in one space: which text says what a picture shows, and which picture shows what a text says.

pictures and captions → stores → batches → two towers → each pair told apart from the others       (training)
picture, labels → vectors → cosines → the label that fits best, though none was trained on          (prediction)
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from regard.data.examples import Example
from regard.data.pairs import Columns
from regard.data.prepare import Steps
from regard.data.splits import Split
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError, RegardError
from regard.inputs.base import Input
from regard.inputs.image.input import ImageInput, PictureItem
from regard.inputs.image.source import PictureSource
from regard.inputs.image.store import PictureExamples
from regard.inputs.text.input import TextInput, TextItem
from regard.look.axis import whole
from regard.look.case import Case
from regard.metrics.retrieval import BothWays, retrieval_both_ways
from regard.models.two_towers import Tower, TwoTowers
from regard.outputs.base import LookOptions, Output, Told
from regard.outputs.result import Candidate, Labeled, Prediction, Scores
from regard.outputs.vector.batches import MatchBatches
from regard.outputs.vector.settings import LABEL, MatchRecipe
from regard.outputs.vector.vectorizer import Vectorizer
from regard.parts import build_pooling

QUICK = 500  # validation pictures that are told apart while training goes on
KEPT = 1000  # captions of training that a run keeps, for whoever asks without labels
CAPTIONS = "captions.json"


def image_input(recipe: MatchRecipe) -> ImageInput:
    return ImageInput(recipe, section=lambda recipe: recipe.model.image.encoder)


class Match(Output[MatchRecipe, ImageInput, TwoTowers]):
    """The picture is the input of the job; `text` is the input of the other side."""

    gives: ClassVar[str] = "a vector"
    unit: ClassVar[str] = "pairs"

    def __init__(self, recipe: MatchRecipe, input: ImageInput) -> None:
        super().__init__(recipe, input)
        self.text = TextInput(recipe, section=lambda recipe: recipe.model.text)
        self._captions: list[str] = []

    def with_recipe(self, recipe: MatchRecipe, input: ImageInput) -> "Match":
        changed = super().with_recipe(recipe, input)
        changed.text = self.text.with_recipe(recipe)
        return changed

    def learn(self, texts: Iterable[str]) -> Tokenizer:
        texts = list(texts)
        self._captions = spread(texts, KEPT)
        return self.text.learn(texts)

    @property
    def vocabulary(self) -> Tokenizer:
        return self.text.tokenizer

    def save(self, folder: Path) -> None:
        self.text.save(folder)
        (folder / CAPTIONS).write_text(json.dumps(self._captions, ensure_ascii=False), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        self.text.restore(folder)
        try:
            self._captions = json.loads((folder / CAPTIONS).read_text(encoding="utf-8"))
        except OSError as error:
            raise RegardError(f"{folder}: the run has lost its captions ({error})") from None

    # ------------------------------------------------------------------------------------------------------- training
    def batches(self, split: PictureExamples, max_tokens: int, *, seed: int = 0) -> MatchBatches:
        if not len(split):
            longest = self.recipe.data.max_length
            raise RegardError(f"{split.name}: every caption is longer than data.max_length={longest}")
        return MatchBatches(split, self.text.frame, max_tokens, seed=seed)

    def build(self) -> TwoTowers:
        s = self.recipe.model
        image = self._tower(
            self.input, self.input.encoder(s.image), partial(build_pooling, s.image.pooling, s.image.score)
        )
        text = self._tower(self.text, self.text.encoder(), self.text.pooling)
        return TwoTowers(image, text, temperature=s.temperature)

    def _tower(self, input: Input, encoder: Any, pooling: Callable[[int], nn.Module]) -> Tower:
        s, width = self.recipe.model, encoder.memory_width
        noise, frozen = input.noise(), input.frozen
        return Tower(encoder, pooling(width), width, s.width, dropout=s.dropout, noise=noise, frozen=frozen)

    def quick(self, model: TwoTowers, valid: PictureExamples) -> dict[str, float]:
        """How well some pictures and their captions find each other."""
        return {"temperature": 1 / model.scale.item(), **self._told_apart(model, valid.examples(QUICK)).values}

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: TwoTowers, inputs: Sequence[Any]) -> list[Prediction]:
        """Which of the labels (or, without any, of the kept captions) says best what each picture shows."""
        labels = self.recipe.decoding.labels or self._captions
        if not labels:
            raise CallError("say what the pictures may show, to choose from: labels=['a dog', 'a cat']")
        vectors = self._labels(model, labels) if self.recipe.decoding.labels else self.text_vectors(model, labels)
        chances = (model.scale.detach().cpu() * self.image_vectors(model, inputs) @ vectors.T).log_softmax(1)
        return [self._prediction(one, labels, chance) for one, chance in zip(inputs, chances, strict=True)]

    def _labels(self, model: TwoTowers, labels: Sequence[str]) -> Float[Tensor, "N D"]:
        """The mean over all templates, scaled to length 1 (CLIP, section 3.1.4)."""
        filled = [template.replace(LABEL, label) for template in self.recipe.decoding.templates for label in labels]
        by_template = self.text_vectors(model, filled).view(-1, len(labels), model.text.width)
        return normalize(by_template.mean(0), dim=-1)

    def _prediction(self, one: Any, labels: Sequence[str], chances: Float[Tensor, " N"]) -> Labeled:
        """Log-probabilities among these labels; of kept captions, which are many, those of the best are told."""
        how = self.recipe.decoding
        order: list[int] = chances.argsort(descending=True, stable=True).tolist()
        outputs = [Candidate(labels[n], float(chances[n]), float(chances[n].exp())) for n in order[: how.n_best]]
        told = {labels[number]: float(chances[number].exp()) for number in order} if how.labels else {}
        return Labeled(self.input.name(one), outputs, labels=[outputs[0].text], probabilities=told)

    def score(self, model: TwoTowers, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Prediction]:
        """The cosine of each picture and its text."""
        cosines = (self.image_vectors(model, inputs) * self.text_vectors(model, outputs)).sum(1).tolist()
        return [
            Prediction(self.input.name(one), [Candidate(text, score=cosine)])
            for one, text, cosine in zip(inputs, outputs, cosines, strict=True)
        ]

    def similarity(self, model: TwoTowers, pictures: Sequence[Any], texts: Sequence[str]) -> Float[Tensor, "N M"]:
        """The cosine of every picture (path, bytes, array or Pillow's) with every text."""
        return self.image_vectors(model, pictures) @ self.text_vectors(model, texts).T

    def image_vectors(self, model: TwoTowers, pictures: Sequence[Any]) -> Float[Tensor, "N D"]:
        """Vectors of length 1 of pictures as a user gives them, or as `PictureItem`s."""
        return self._side(model.image, self.input).vectors([self.input.read(one) for one in pictures])

    def text_vectors(self, model: TwoTowers, texts: Sequence[str]) -> Float[Tensor, "N D"]:
        """Vectors of length 1."""
        return self._side(model.text, self.text).vectors([self._read(text) for text in texts])

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: TwoTowers, one: Any, options: LookOptions) -> list[Told]:
        """What is looked at is the cosine with a text: the given one, or those that fit best."""
        texts = [options.output]
        if options.output is None:
            texts = [candidate.text for candidate in self.predict(model, [one])[0].n_best]
        cosines = self.similarity(model, [one], texts)[0].tolist()
        return [Told(text, text, cosine) for text, cosine in zip(texts, cosines, strict=True)]

    def case(self, model: TwoTowers, one: Any, told: Told) -> Case:
        """The text looks at the regions of the picture; beside it stands which of its words the text tower heeds."""
        picture, said = self.input.read(one), self._read(told.target)
        image, text = self._side(model.image, self.input), self._side(model.text, self.text)
        axes = {"target": whole(told.text), "source": self.input.axis(picture), "read": self.text.axis(said)}
        words = text.case(model, said, image.vectors([picture])[0], axes, columns="read", kind="decoder")
        return image.case(model, picture, text.vectors([said])[0], axes, beside=[words])

    # ------------------------------------------------------------------------------------------------------ evaluation
    def test_scores(self, model: TwoTowers, examples: Sequence[Example], alignments: bool) -> Scores:
        """Recall at 1, 5 and 10 both ways beside chance; and zero-shot accuracy, where there are labeled pictures."""
        found = self._told_apart(model, examples)
        values = {**found.values, "pictures": float(len(examples))}
        if self.recipe.data.zero_shot is not None:
            values |= self._zero_shot(model, self.recipe.data.zero_shot)
        percent = [name for name in values if "_at_" in name or name in ("zero_shot_accuracy", "zero_shot_by_chance")]
        return Scores(values, {}, {"recall, in percent": found.rows}, percent=percent)

    def _told_apart(self, model: TwoTowers, examples: Sequence[Example]) -> BothWays:
        images = self.image_vectors(model, [example.input for example in examples])
        captions = self.text_vectors(model, [text for example in examples for text in example.texts])
        return retrieval_both_ways(images.numpy(), captions.numpy(), [example.texts for example in examples])

    def _zero_shot(self, model: TwoTowers, where: str) -> dict[str, float]:
        """How often the most likely label is the right one, in percent; and how often a blind guess would be."""
        data = self.recipe.data
        source = PictureSource(where, "test", Columns(sides=("image", "label"), folders=True))
        with TemporaryDirectory(prefix="regard-pictures-") as folder:
            store = self.input.stored(Steps.of(data, Path(folder), strict=False), "test", Split(source))
            store.counts.read.refuse_if(f"data.zero_shot={where}", data.max_bad)
            images = self.image_vectors(model, [PictureItem(torch.from_numpy(one.copy())) for one in store.pixels])
        right = [entry.texts[0] for entry in store.entries]
        labels = sorted(set(right))
        said = (images @ self._labels(model, labels).T).argmax(1).tolist()
        hits = [labels[number] == name for number, name in zip(said, right, strict=True)]
        return {
            "zero_shot_accuracy": 100 * float(np.mean(hits)),
            "zero_shot_by_chance": 100 / len(labels),
            "zero_shot_pictures": float(len(store)),
        }

    # ----------------------------------------------------------------------------------------------------------- parts
    def _side(self, tower: Tower, input: ImageInput | TextInput) -> Vectorizer:
        return Vectorizer(input, tower.encoder, tower.pooling, tower, tower.width, self.recipe.decoding.batch_tokens)

    def _read(self, text: str) -> TextItem:
        """Cut at the longest that training read."""
        item = self.text.read(text)
        if not item.ids:
            raise CallError(f"the text {text!r} has no token: there is nothing to match")
        return item._replace(ids=item.ids[: self.recipe.data.max_length - 1])


def spread(texts: Sequence[str], most: int) -> list[str]:
    """At most so many different texts, taken evenly from all of them."""
    different = list(dict.fromkeys(texts))
    step = max(1, -(-len(different) // most))
    return different[::step]
