"""Pictures and texts in one space: find the text that describes a picture, or the picture of a text.

pictures and captions → stores → batches → two towers → each pair contrasted with the others       (training)
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

from regard.data.examples import Example as examples_Example
from regard.data.labels import Example
from regard.data.pairs import Columns
from regard.data.prepare import PrepareCache, Split
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.inputs.base import Input
from regard.inputs.image.input import ImageInput, PictureItem
from regard.inputs.image.source import PictureSource
from regard.inputs.media import MediaExamples
from regard.inputs.text.input import TextInput, TextItem
from regard.look.axis import whole
from regard.look.case import ExplainTarget
from regard.metrics.retrieval import BothWays, places_of, ranks, retrieval_both_ways
from regard.models.build import build_pooling
from regard.models.embedder import Tower, TwoTowers
from regard.tasks.base import Output, OutputRef
from regard.tasks.result import Candidate, LookOptions, Measure, Prediction, Scores, Tally
from regard.tasks.vector.matching import CAPTIONS, Matching, load_captions, matchable
from regard.tasks.vector.settings import MatchRecipe
from regard.tasks.vector.vectorizer import MatchBatches, Vectorizer

# Two towers for pictures and texts in one space: training and vectors.

KEPT = 1000  # training captions kept by a run, for predictions without labels


def image_input(recipe: MatchRecipe) -> ImageInput:
    return ImageInput(recipe, section=lambda recipe: recipe.model.image.encoder)


class TwoTowersOutput(Output[MatchRecipe, ImageInput, TwoTowers]):
    """Two-tower output: the picture is the input of the job; `text` is the input of the text tower."""

    gives: ClassVar[str] = "a vector"
    unit: ClassVar[str] = "pairs"

    def __init__(self, recipe: MatchRecipe, input: ImageInput) -> None:
        super().__init__(recipe, input)
        self.text = TextInput(recipe, section=lambda recipe: recipe.model.text)
        self.captions: list[str] = []

    def with_recipe(self, recipe: MatchRecipe, input: ImageInput) -> Any:
        changed = super().with_recipe(recipe, input)
        changed.text = self.text.with_recipe(recipe)
        return changed

    def learn(self, texts: Iterable[str]) -> Tokenizer:
        texts = list(texts)
        self.captions = sample_evenly(texts, KEPT)
        return self.text.learn(texts)

    @property
    def vocabulary(self) -> Tokenizer:
        return self.text.tokenizer

    def save(self, folder: Path) -> None:
        self.text.save(folder)
        (folder / CAPTIONS).write_text(json.dumps(self.captions, ensure_ascii=False), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        self.text.restore(folder)
        self.captions = load_captions(folder)

    def batches(self, split: MediaExamples, max_tokens: int, *, seed: int = 0) -> MatchBatches:
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

    def similarity(self, model: TwoTowers, pictures: Sequence[Any], texts: Sequence[str]) -> Float[Tensor, "N M"]:
        """Return the cosine of every picture (path, bytes, array or Pillow image) with every text."""
        return self.image_vectors(model, pictures) @ self.text_vectors(model, texts).T

    def image_vectors(self, model: TwoTowers, pictures: Sequence[Any]) -> Float[Tensor, "N D"]:
        """Return vectors of length 1 of pictures in any supported form, or of `PictureItem`s."""
        return self.side(model.image, self.input).vectors([self.input.read(one) for one in pictures])

    def text_vectors(self, model: TwoTowers, texts: Sequence[str]) -> Float[Tensor, "N D"]:
        """Return vectors of length 1."""
        return self.side(model.text, self.text).vectors([self.read_text(text) for text in texts])

    def side(self, tower: Tower, input: ImageInput | TextInput) -> Vectorizer:
        return Vectorizer(input, tower.encoder, tower.pooling, tower, tower.width, self.recipe.decoding.batch_tokens)

    def read_text(self, text: str) -> TextItem:
        return matchable(self.text, text, self.recipe.data.max_length - 1)

    @property
    def limit(self) -> str:
        return f"data.max_length={self.recipe.data.max_length} tokens: only their beginning is read"

    def is_overlong(self, example: Example) -> bool:
        return any(map(self.text.is_overlong, example.texts))

    def labeled_pictures(self, where: str) -> tuple[list[PictureItem], list[str]]:
        """Return pictures and their labels for zero-shot evaluation."""
        data = self.recipe.data
        source = PictureSource(where, "test", Columns(dict.fromkeys(("image", "label")), folders=True))
        with TemporaryDirectory(prefix="regard-pictures-") as folder:
            store = self.input.open_store(PrepareCache.of(data, Path(folder), strict=False), "test", Split(source))
            store.counts.read.refuse_if(f"data.zero_shot={where}", data.max_bad)
            pictures = [PictureItem(torch.from_numpy(one.copy())) for one in store.pixels]
        return pictures, [entry.texts[0] for entry in store.entries]


def sample_evenly(texts: Sequence[str], most: int) -> list[str]:
    """Return at most `most` different texts, evenly spread over all."""
    different = list(dict.fromkeys(texts))
    step = max(1, -(-len(different) // most))
    return different[::step]


QUICK = 500  # validation pictures compared during training


class Match(TwoTowersOutput):
    def quick(self, model: TwoTowers, valid: MediaExamples) -> dict[str, float]:
        """Return how often some pictures and their captions find each other."""
        return {"temperature": 1 / model.scale.item(), **self._told_apart(model, valid.examples(QUICK)).values}

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: TwoTowers, inputs: Sequence[Any]) -> list[Prediction]:
        """Return the best label for each picture (without labels: the best of the kept captions)."""
        return [*self._matching(model).predictions([self.input.name(one) for one in inputs], inputs)]

    def _matching(self, model: TwoTowers) -> Matching:
        return Matching(
            self.recipe, self.captions, model.scale.item(),
            lambda pictures: self.image_vectors(model, pictures).numpy(),
            lambda texts: self.text_vectors(model, texts).numpy(),
        )  # fmt: skip

    def score_outputs(self, model: TwoTowers, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        """Return the cosine of each picture and its text."""
        cosines = self._matching(model).cosines(inputs, outputs)
        return [Candidate(text, score=cosine) for text, cosine in zip(outputs, cosines, strict=True)]

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: TwoTowers, one: Any, options: LookOptions) -> list[OutputRef]:
        """Return the texts to explain, with their cosines: the given one, or the best ones."""
        texts = [options.output]
        if options.output is None:
            texts = [candidate.text for candidate in self.predict(model, [one])[0].n_best]
        cosines = self.similarity(model, [one], texts)[0].tolist()
        return [OutputRef(text, text, cosine) for text, cosine in zip(texts, cosines, strict=True)]

    def reader(self, model: TwoTowers) -> nn.Module:
        return model.image

    def case(self, model: TwoTowers, one: Any, ref: OutputRef) -> ExplainTarget:
        """Return the case: the text's attention over the regions of the picture, and the weights of the text tower
        over its words.
        """
        picture, said = self.input.read(one), self.read_text(ref.target)
        image, text = self.side(model.image, self.input), self.side(model.text, self.text)
        axes = {"target": whole(ref.text), "source": self.input.axis(picture), "read": self.text.axis(said)}
        words = text.case(model, said, image.vectors([picture])[0], axes, columns="read", kind="decoder")
        return image.case(model, picture, text.vectors([said])[0], axes, beside=[words])

    # ------------------------------------------------------------------------------------------------------ evaluation
    def test_scores(self, model: TwoTowers, examples: Sequence[examples_Example], alignments: bool) -> Scores:
        """Return recall at 1, 5 and 10 in both directions and by chance; and zero-shot accuracy, if there are labeled
        pictures.
        """
        found = self._told_apart(model, examples)
        values = {**found.values, "pictures": float(len(examples))}
        if self.recipe.data.zero_shot is not None:
            pictures, right = self.labeled_pictures(self.recipe.data.zero_shot)
            labels = sorted(set(right))
            vectors = self._matching(model).of_labels(labels)
            said = (self.image_vectors(model, pictures).numpy() @ vectors.T).argmax(1).tolist()
            values |= {
                "zero_shot_accuracy": 100
                * float(np.mean([labels[n] == one for n, one in zip(said, right, strict=True)])),
                "zero_shot_by_chance": 100 / len(labels),
                "zero_shot_pictures": float(len(right)),
            }
        percent = [name for name in values if "_at_" in name or name in ("zero_shot_accuracy", "zero_shot_by_chance")]
        return Scores(values, {}, {"recall, in percent": found.rows}, percent=percent)

    def measure(self) -> Measure:
        return Measure("image_to_text_at_1", of_hits=True)

    def answers(self, model: TwoTowers, examples: Sequence[examples_Example]) -> Float[np.ndarray, "N M"]:
        """Return the similarity of each picture and each caption."""
        texts = [text for example in examples for text in example.texts]
        return self.similarity(model, [example.input for example in examples], texts).numpy()

    def baselines(self, train: Any, examples: Sequence[examples_Example]) -> dict[str, Float[np.ndarray, "N M"]]:
        captions = sum(len(example.texts) for example in examples)
        return {"chance": np.random.default_rng(0).random((len(examples), captions))}

    def tally(self, answers: Float[np.ndarray, "N M"], examples: Sequence[examples_Example]) -> Tally:
        places = places_of([example.texts for example in examples])
        return Tally.of_hits(ranks(answers, np.eye(answers.shape[1]), places) == 1)

    def _told_apart(self, model: TwoTowers, examples: Sequence[examples_Example]) -> BothWays:
        images = self.image_vectors(model, [example.input for example in examples])
        captions = self.text_vectors(model, [text for example in examples for text in example.texts])
        return retrieval_both_ways(images.numpy(), captions.numpy(), [example.texts for example in examples])
