"""Training of a text encoder on pairs that belong together; one encoder reads both texts."""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example, Examples
from regard.data.tokenizer import Tokenizer
from regard.encoders.bert import Bert
from regard.errors import CallError
from regard.inputs.text.input import TextInput, TextItem
from regard.layers.pooling import Pooling
from regard.models.embedder import Embedder
from regard.outputs.base import Output
from regard.outputs.vector.batches import ContrastBatches
from regard.outputs.vector.settings import EncodeRecipe
from regard.outputs.vector.vectorizer import Vectorizer


class VectorTraining(Output[EncodeRecipe, TextInput, Embedder]):
    """Training with texts as targets; the input reads both sides of a pair."""

    gives: ClassVar[str] = "a vector"
    unit: ClassVar[str] = "pairs"

    def learn(self, texts: Iterable[str]) -> Tokenizer:
        return self.input.tokenizer

    @property
    def vocabulary(self) -> Tokenizer:
        return self.input.tokenizer

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        frame = self.input.frame
        return frame.padded(targets) if len(targets) else torch.full((1, 1), frame.pad)

    def batches(self, split: Examples, max_tokens: int, *, seed: int = 0) -> ContrastBatches:
        return ContrastBatches(split, self.collate, max_tokens, seed=seed)

    def build(self) -> Embedder:
        encoder, how = self.input.encoder(), self.recipe.vectors
        assert isinstance(encoder, Bert)  # the only one of the recipe
        return Embedder(encoder, Pooling(how.pooling), normalize=how.normalize, temperature=how.temperature)

    def side(self, model: Embedder) -> Vectorizer:
        width, tokens = model.encoder.memory_width, self.recipe.vectors.batch_tokens
        return Vectorizer(self.input, model.encoder, model.pooling, model.vectors, width, tokens)

    @property
    def most(self) -> int:
        """Return the maximum tokens of a text, without start and end tokens."""
        return self.recipe.data.max_length - 1

    @property
    def limit(self) -> str:
        return f"data.max_length={self.most + 1} tokens: only their beginning is read"

    def is_overlong(self, example: Example) -> bool:
        return any(map(self.input.is_overlong, (example.input, *example.texts)))

    def cut(self, text: str) -> TextItem:
        item = self.input.read(text)
        return item._replace(ids=item.ids[: self.most])

    def read_text(self, text: str) -> TextItem:
        """Return the item of a text: truncated at the model's limit, or an error."""
        item = self.input.read(text)
        if len(item.ids) > self.most and self.recipe.data.overlong != "cut":
            raise CallError(
                f"the text {text[:40]!r} has {len(item.ids)} tokens, more than the model's limit of {self.most}"
            )
        return self.cut(text)
