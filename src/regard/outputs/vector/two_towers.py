"""Two towers for pictures and texts in one space: training and vectors."""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.data.example import Example
from regard.data.pairs import Columns
from regard.data.prepare import Steps
from regard.data.splits import Split
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.inputs.base import Input
from regard.inputs.image.input import ImageInput, PictureItem
from regard.inputs.image.source import PictureSource
from regard.inputs.media_store import MediaExamples
from regard.inputs.text.input import TextInput, TextItem
from regard.models.two_towers import Tower, TwoTowers
from regard.outputs.base import Output
from regard.outputs.vector.batches import MatchBatches
from regard.outputs.vector.matching import CAPTIONS, load_captions, matchable
from regard.outputs.vector.settings import MatchRecipe
from regard.outputs.vector.vectorizer import Vectorizer
from regard.parts import build_pooling

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
        self.captions = spread(texts, KEPT)
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
            store = self.input.stored(Steps.of(data, Path(folder), strict=False), "test", Split(source))
            store.counts.read.refuse_if(f"data.zero_shot={where}", data.max_bad)
            pictures = [PictureItem(torch.from_numpy(one.copy())) for one in store.pixels]
        return pictures, [entry.texts[0] for entry in store.entries]


def spread(texts: Sequence[str], most: int) -> list[str]:
    """Return at most `most` different texts, evenly spread over all."""
    different = list(dict.fromkeys(texts))
    step = max(1, -(-len(different) // most))
    return different[::step]
