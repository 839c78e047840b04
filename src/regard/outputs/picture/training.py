"""Two-stage training of drawing: the tokenizer of pictures, then the decoder that generates its tokens after words."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import padded
from regard.data.check_report import CheckReport
from regard.data.examples import Example, ExampleBatches
from regard.data.tables import Role
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.inputs.media_store import MediaExamples
from regard.inputs.text.input import TextInput
from regard.models.drawer import DrawBatch, Drawer
from regard.outputs.base import Output
from regard.outputs.picture import scores as picture_scores
from regard.outputs.picture.build import CaptionedPictures, build_drawer
from regard.outputs.picture.codes import AT_ONCE
from regard.outputs.picture.drawing import channels_first
from regard.outputs.picture.settings import DrawRecipe
from regard.settings.decisions import Decision
from regard.special_tokens import END, PAD


@dataclass(frozen=True)
class StagedBatches:
    """Captions with their pictures. An epoch of both stages has every caption once."""

    captions: ExampleBatches
    first: int  # epochs of the tokenizer

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[DrawBatch]:
        for batch in self.captions.epoch(number, start, rank, world):
            yield DrawBatch(batch.source, batch.target, number < self.first)

    def len_epoch(self, number: int) -> int:
        return self.captions.len_epoch(number)


class PictureTraining(Output[DrawRecipe, TextInput, Drawer]):
    gives: ClassVar[str] = "a picture"
    unit: ClassVar[str] = "regions"

    def __init__(self, recipe: DrawRecipe, input: TextInput) -> None:
        super().__init__(recipe, input)
        self.captioned = CaptionedPictures(recipe)

    def decided(self) -> list[Decision]:
        return self.captioned.decided()

    @property
    def by_chance(self) -> bool:
        return self.recipe.decoding.temperature > 0

    @property
    def has_test_data(self) -> bool:
        return self.captioned.has_test_data

    def with_recipe(self, recipe: DrawRecipe, input: TextInput) -> Any:
        changed = super().with_recipe(recipe, input)
        changed.captioned = self.captioned.with_recipe(recipe)
        return changed

    def learn(self, texts: Iterable[str]) -> Tokenizer:
        """Learn the words of sentences; the codes of pictures are part of the model."""
        return self.input.learn(texts)

    @property
    def vocabulary(self) -> Tokenizer:
        return self.input.tokenizer

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        return padded(targets) if len(targets) else torch.full((1, 1), PAD)

    def prepare(self, cache: Path, *, strict: bool = True) -> dict[Role, Any]:
        return self.captioned.prepare(cache, self, strict=strict)

    def check(self, splits: dict[Role, Any]) -> CheckReport:
        return self.captioned.check(splits, self.vocabulary)

    def batches(self, split: MediaExamples, max_tokens: int, *, seed: int = 0) -> StagedBatches:
        if not len(split):
            raise RegardError(f"{split.name}: every caption is longer than data.max_length={self.longest}; raise it")
        captions = ExampleBatches(split, self.collate, max_tokens, seed=seed, ahead=self.captioned.ahead)
        return StagedBatches(captions, self.recipe.model.tokenizer.epochs)

    def build(self) -> Drawer:
        return build_drawer(self.recipe, self.vocabulary.size, self.captioned.train)

    def validate(self, model: Drawer, valid: MediaExamples) -> dict[str, float]:
        """Return scores; `loss` is the sum of the losses of regions and reconstruction, so that it falls in both
        stages.
        """
        costs = picture_scores.costs(model, self.scored_batches(valid).epoch(0))
        return {"loss": costs["region_loss"] + costs["reconstruction"], **costs}

    def some(self, valid: MediaExamples, most: int) -> list[Example]:
        return self.with_sentence(valid.examples(most))

    def reference(self, example: Example) -> Any:
        return example.gold

    def with_sentence(self, examples: Sequence[Example]) -> list[Example]:
        """Return a sentence for each picture, its captions in turn; `gold` is the picture."""
        found = []
        for number, (picture, texts, _) in enumerate(examples):
            fitting = [text for text in texts if len(self.vocabulary.encode(text)) < self.longest]
            fitting = fitting or [self._cut(texts[0])]
            found.append(Example(fitting[number % len(fitting)], (), picture.pixels))
        return found

    @property
    def limit(self) -> str:
        return f"data.max_length={self.longest} tokens: only their beginning is read"

    def is_overlong(self, example: Example) -> bool:
        return any(len(self.vocabulary.encode(text)) >= self.longest for text in example.texts)

    def _cut(self, text: str) -> str:
        """Return the first words of a sentence, as many as the model reads."""
        words = text.split()
        while len(words) > 1 and len(self.vocabulary.encode(" ".join(words))) >= self.longest:
            words.pop()
        return " ".join(words)

    @property
    def longest(self) -> int:
        """Return the maximum tokens of a sentence, including the end token."""
        return self.recipe.data.max_length

    def all_captions(self, examples: Sequence[Example]) -> Iterator[DrawBatch]:
        """Yield every picture with every one of its sentences; longer ones are truncated."""
        texts = [self.vocabulary.encode_batch(list(example.texts)) for example in examples]
        pairs = [
            (example, np.array([*ids[: self.longest - 1], END]))
            for example, of_picture in zip(examples, texts, strict=True)
            for ids in of_picture
        ]
        for start in range(0, len(pairs), AT_ONCE):
            some, ids = zip(*pairs[start : start + AT_ONCE], strict=True)
            pixels = [example.input.pixels for example in some]
            yield DrawBatch(channels_first(pixels), self.collate(ids), tokenizing=False)

    def test(self) -> tuple[list[Example], str]:
        return self.captioned.test()
