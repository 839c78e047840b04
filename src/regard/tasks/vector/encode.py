"""Vector output: one vector for each text, near those of texts that belong to it.

pairs → token ids → batches → encoder → two vectors a pair → contrast with the other pairs      (training)
text  → token ids → encoder → one vector                                                        (prediction)
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example, Examples
from regard.data.tokenizer import Tokenizer
from regard.encoders.text import Bert
from regard.errors import CallError
from regard.inputs.text.input import TextInput, TextItem
from regard.layers.pooling import Pooling
from regard.look.axis import Axis, whole
from regard.look.case import ExplainTarget, Parts
from regard.look.methods import ABOUT_OUTPUT
from regard.metrics.retrieval import partner_ranks, retrieval
from regard.models.embedder import Embedder
from regard.tasks.base import Output, OutputRef
from regard.tasks.batched import device_of
from regard.tasks.final_score import has_tfidf, tfidf
from regard.tasks.result import Candidate, LookOptions, Measure, Prediction, Scores, Tally, Vector
from regard.tasks.vector.settings import EncodeRecipe
from regard.tasks.vector.vectorizer import ContrastBatches, Vectorizer

# Training of a text encoder on pairs that belong together; one encoder reads both texts.


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


# Self-attention of a text encoder over one text, or over two that it reads as one pair.


class Other(NamedTuple):
    """The text that another one is compared with; `joined`: both are read as one pair."""

    item: TextItem
    joined: bool


def texts_case(model: Embedder, input: TextInput, item: TextItem, second: TextItem | None, most: int) -> ExplainTarget:
    """Return the case. `most`: maximum tokens of both texts together."""
    if second is not None and len(item.ids) + len(second.ids) > most:
        raise CallError(f"the two texts together have more tokens than the model's limit of {most}")
    tokens, types = input.tokenizer.frame_ids(item.ids, None if second is None else second.ids)
    device = device_of(model)
    segments = None if second is None else torch.tensor([types], device=device)

    def ask(without: Sequence[Parts]) -> Tensor:
        memory = model.encoder(torch.tensor([tokens], device=device), segments)
        return memory.summary.new_empty(len(without), 0)  # there is no output with steps to score

    axis = input.axis(item)
    return ExplainTarget(model, ask, {"source": axis if second is None else _join_texts(axis, input.axis(second))})


def _join_texts(first: Axis, second: Axis) -> Axis:
    """Join the axes of two texts, read one after the other; the second has no start token."""
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


QUICK = 1000  # validation pairs compared during training
COMPARING = ABOUT_OUTPUT  # methods that explain the cosine of two texts


class VectorOutput(VectorTraining):
    gives_vectors: ClassVar[bool] = True

    def quick(self, model: Embedder, valid: Examples) -> dict[str, float]:
        """Return how often a text finds its partner among others."""
        return self._retrieval(model, valid.examples(QUICK))

    def sample(self, model: Embedder, example: Example) -> str:
        found = self._cosines(model, [self.cut(example.input)], [self.cut(example.texts[0])])
        return f"{example.input}\n→ cosine {found[0]:.3f} with\n= {example.texts[0]}"

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: Embedder, inputs: Sequence[str]) -> list[Prediction]:
        vectors = self.side(model).vectors([self.read_text(text) for text in inputs]).numpy()
        return [Vector.of(text, vector) for text, vector in zip(inputs, vectors, strict=True)]

    def score_outputs(self, model: Embedder, inputs: Sequence[str], outputs: Sequence[str]) -> list[Candidate]:
        """Return the cosine of the two vectors of each input and output."""
        cosines = self._cosines(
            model, [self.read_text(one) for one in inputs], [self.read_text(one) for one in outputs]
        )
        return [Candidate(other, score=cosine) for other, cosine in zip(outputs, cosines, strict=True)]

    def _cosines(self, model: Embedder, items: Sequence[TextItem], others: Sequence[TextItem]) -> list[float]:
        side = self.side(model)
        return (side.unit(items) * side.unit(others)).sum(1).tolist()

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Embedder, one: str, options: LookOptions) -> list[OutputRef]:
        if options.output is None:
            if options.method in COMPARING:
                raise CallError(
                    "this method explains the cosine of two texts: give the other one (output=..., --target)"
                )
            return [OutputRef(None, "")]
        item, other = self.read_text(one), self.read_text(options.output)
        joined = model.encoder.types is not None and options.method not in COMPARING
        return [OutputRef(Other(other, joined), other.text, self._cosines(model, [item], [other])[0])]

    def case(self, model: Embedder, one: str, ref: OutputRef) -> ExplainTarget:
        """Return the case of the text's self-attention. With another text: of both as one pair, if the encoder has
        segments, as BERT has. Otherwise, and for methods that explain the cosine of the two: of the text and its
        pooled vector.
        """
        item, other = self.read_text(self.item_of(one).text), ref.target
        if other is None or other.joined:
            return texts_case(model, self.input, item, None if other is None else other.item, self.most - 1)
        side, axes = self.side(model), {"source": self.input.axis(item), "target": whole(ref.text)}
        return side.case(model, item, side.unit([other.item])[0], axes)

    # ------------------------------------------------------------------------------------------------------ evaluation
    def test_scores(self, model: Embedder, examples: Sequence[Example], alignments: bool) -> Scores:
        """Return how often each text of the test data finds its partner among all of them, in both directions."""
        return Scores({**self._retrieval(model, examples), "pairs": float(len(examples))})

    def measure(self) -> Measure:
        return Measure("recall_at_1", percent=False)

    def answers(self, model: Embedder, examples: Sequence[Example]) -> Float[np.ndarray, "N N"]:
        """Return the similarity of each source and each target."""
        sources, targets = self._sides(model, examples)
        return sources @ targets.T

    def baselines(self, train: Examples, examples: Sequence[Example]) -> dict[str, Float[np.ndarray, "N N"]]:
        """Return the baseline: shared words, by TF-IDF."""
        texts = [[text] for one in examples for text in (one.input, one.texts[0])]
        vectors = tfidf(texts, texts[:1]) if has_tfidf() else None
        return {} if vectors is None else {"TF-IDF": (vectors[0][::2] @ vectors[0][1::2].T).toarray()}

    def tally(self, answers: Float[np.ndarray, "N N"], examples: Sequence[Example]) -> Tally:
        """Return how often the two texts of each pair find each other, in both directions."""
        there, back = partner_ranks(answers, np.eye(len(answers)), _pairs(examples))
        return Tally.of_shares([(int(one == 1) + int(other == 1), 2) for one, other in zip(there, back, strict=True)])

    def _retrieval(self, model: Embedder, examples: Sequence[Example]) -> dict[str, float]:
        return retrieval(*self._sides(model, examples), _pairs(examples))

    def _sides(
        self, model: Embedder, examples: Sequence[Example]
    ) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N D"]]:
        side = self.side(model)
        sources = side.unit([self.cut(example.input) for example in examples])
        targets = side.unit([self.cut(example.texts[0]) for example in examples])
        return sources.numpy(), targets.numpy()


def _pairs(examples: Sequence[Example]) -> list[tuple[str, str]]:
    return [(example.input, example.texts[0]) for example in examples]
