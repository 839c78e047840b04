"""A vector comes out: one for each text, near those of texts that belong to it.

pairs → token ids → batches → encoder → two vectors a pair → contrast with the other pairs      (training)
text  → token ids → encoder → one vector                                                        (prediction)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example, Examples
from regard.data.tokenizer import Tokenizer
from regard.encoders.bert import Bert
from regard.errors import CallError
from regard.inputs.text.input import TextInput, TextItem
from regard.layers.pooling import Pooling
from regard.look.axis import Axis, whole
from regard.look.case import Case, Parts
from regard.metrics.retrieval import retrieval
from regard.models.embedder import Embedder
from regard.outputs.base import LookOptions, Output, Told
from regard.outputs.batched import device_of
from regard.outputs.result import Candidate, Prediction, Scores
from regard.outputs.vector.batches import ContrastBatches
from regard.outputs.vector.settings import EncodeRecipe
from regard.outputs.vector.vectorizer import Vectorizer

QUICK = 1000  # validation pairs that are told apart while training goes on
COMPARING = ("gradient", "input-gradient", "leave-one-out")  # methods that ask what the cosine of two texts feels


@dataclass(frozen=True, kw_only=True)
class Vector(Prediction):
    """The vector of one text; `text` has its numbers, separated by spaces."""

    vector: Float[np.ndarray, " D"]


class Other(NamedTuple):
    """The text that another one is held against; `joined`: both are read as one pair, in one go."""

    item: TextItem
    joined: bool


class VectorOutput(Output[EncodeRecipe, TextInput, Embedder]):
    """Targets are texts, too, and the input reads both sides of a pair."""

    gives: ClassVar[str] = "a vector"
    unit: ClassVar[str] = "pairs"
    gives_vectors: ClassVar[bool] = True

    def learn(self, texts: Iterable[str]) -> Tokenizer:
        return self.input.tokenizer

    @property
    def vocabulary(self) -> Tokenizer:
        return self.input.tokenizer

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        frame = self.input.frame
        return frame.padded(targets) if len(targets) else torch.full((1, 1), frame.pad)

    # ------------------------------------------------------------------------------------------------------- training
    def batches(self, split: Examples, max_tokens: int, *, seed: int = 0) -> ContrastBatches:
        return ContrastBatches(split, self.collate, max_tokens, seed=seed)

    def build(self) -> Embedder:
        encoder, how = self.input.encoder(), self.recipe.vectors
        assert isinstance(encoder, Bert)  # the recipe has no other
        return Embedder(encoder, Pooling(how.pooling), normalize=how.normalize, temperature=how.temperature)

    def quick(self, model: Embedder, valid: Examples) -> dict[str, float]:
        """How often a text finds its partner among others."""
        return self._retrieval(model, valid.examples(QUICK))

    def sample(self, model: Embedder, example: Example) -> str:
        found = self._cosines(model, [self._cut(example.input)], [self._cut(example.texts[0])])
        return f"{example.input}\n→ cosine {found[0]:.3f} with\n= {example.texts[0]}"

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: Embedder, inputs: Sequence[str]) -> list[Prediction]:
        vectors = self._side(model).vectors([self._read(text) for text in inputs]).numpy()
        return [
            Vector(text, [Candidate(" ".join(f"{value:.6g}" for value in vector))], vector=vector)
            for text, vector in zip(inputs, vectors, strict=True)
        ]

    def score(self, model: Embedder, inputs: Sequence[str], outputs: Sequence[str]) -> list[Prediction]:
        """The cosine of the two vectors, for each pair of an input and an output."""
        cosines = self._cosines(model, [self._read(one) for one in inputs], [self._read(one) for one in outputs])
        return [
            Prediction(text, [Candidate(other, score=cosine)])
            for text, other, cosine in zip(inputs, outputs, cosines, strict=True)
        ]

    def _cosines(self, model: Embedder, items: Sequence[TextItem], others: Sequence[TextItem]) -> list[float]:
        side = self._side(model)
        return (side.unit(items) * side.unit(others)).sum(1).tolist()

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Embedder, one: str, options: LookOptions) -> list[Told]:
        if options.output is None:
            if options.method in COMPARING:
                raise CallError(
                    f"method={options.method!r} asks what makes two texts alike: give the other one, as output"
                )
            return [Told(None, "")]
        item, other = self._read(one), self._read(options.output)
        joined = model.encoder.types is not None and options.method not in COMPARING
        return [Told(Other(other, joined), other.text, self._cosines(model, [item], [other])[0])]

    def case(self, model: Embedder, one: str, told: Told) -> Case:
        """Self-attention of the text. With another text: of both as one pair, where the encoder has segments for it,
        as BERT has; else, and for methods that ask about the cosine of the two, of the text and its pooled vector."""
        item, other = self._read(self.item_of(one).text), told.target
        if isinstance(other, Other) and not other.joined:
            side = self._side(model)
            axes = {"source": self.input.axis(item), "target": whole(told.text)}
            return side.case(model, item, side.unit([other.item])[0], axes)
        second = None if other is None else other.item
        if second is not None and len(item.ids) + len(second.ids) > self._most - 1:
            raise CallError(f"the two texts have more tokens together than the {self._most - 1} that the model reads")
        tokens, types = self.input.tokenizer.framed(item.ids, None if second is None else second.ids)
        device = device_of(model)
        segments = None if second is None else torch.tensor([types], device=device)

        def ask(without: Sequence[Parts]) -> Tensor:
            memory = model.encoder(torch.tensor([tokens], device=device), segments)
            return memory.summary.new_empty(len(without), 0)  # nothing is said, so no step of it can be asked about

        axis = self.input.axis(item)
        return Case(model, ask, {"source": axis if second is None else _joined(axis, self.input.axis(second))})

    # ------------------------------------------------------------------------------------------------------ evaluation
    def test_scores(self, model: Embedder, examples: Sequence[Example], alignments: bool) -> Scores:
        """How often each text of the test data finds its partner among all of them, in both directions."""
        return Scores({**self._retrieval(model, examples), "pairs": float(len(examples))})

    def _retrieval(self, model: Embedder, examples: Sequence[Example]) -> dict[str, float]:
        side = self._side(model)
        sources = side.unit([self._cut(example.input) for example in examples])
        targets = side.unit([self._cut(example.texts[0]) for example in examples])
        return retrieval(sources.numpy(), targets.numpy())

    # ----------------------------------------------------------------------------------------------------------- parts
    def _side(self, model: Embedder) -> Vectorizer:
        width, tokens = model.encoder.memory_width, self.recipe.vectors.batch_tokens
        return Vectorizer(self.input, model.encoder, model.pooling, model.vectors, width, tokens)

    @property
    def _most(self) -> int:
        """Tokens of the longest text, without those that begin and end it."""
        return self.recipe.data.max_length - 1

    def _cut(self, text: str) -> TextItem:
        item = self.input.read(text)
        return item._replace(ids=item.ids[: self._most])

    def _read(self, text: str) -> TextItem:
        """Cut at the longest that the model knows, or refused."""
        item = self.input.read(text)
        if len(item.ids) > self._most and self.recipe.data.overlong != "cut":
            raise CallError(
                f"the text {text[:40]!r} has {len(item.ids)} tokens, more than the {self._most} that the model reads"
            )
        return self._cut(text)


def _joined(first: Axis, second: Axis) -> Axis:
    """Two texts, read one after the other; the second does not begin anew."""
    shift = len(first.text) + 1
    words = max((token.word for token in first.tokens if token.word is not None), default=-1) + 1
    rest = (
        replace(
            token,
            span=None if token.span is None else (token.span[0] + shift, token.span[1] + shift),
            word=None if token.word is None else token.word + words,
        )
        for token in second.tokens[1:]
    )
    return Axis((*first.tokens, *rest), f"{first.text} {second.text}")
