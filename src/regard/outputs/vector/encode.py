"""Vector output: one vector for each text, near those of texts that belong to it.

pairs → token ids → batches → encoder → two vectors a pair → contrast with the other pairs      (training)
text  → token ids → encoder → one vector                                                        (prediction)
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Float

from regard.data.examples import Example, Examples
from regard.errors import CallError
from regard.inputs.text.input import TextItem
from regard.look.axis import whole
from regard.look.case import Case
from regard.look.methods import ABOUT_OUTPUT
from regard.metrics.retrieval import partner_ranks, retrieval
from regard.models.embedder import Embedder
from regard.outputs.base import Told
from regard.outputs.baselines import has_tfidf, tfidf
from regard.outputs.looking import LookOptions
from regard.outputs.result import Candidate, Measure, Prediction, Scores, Tally, Vector
from regard.outputs.vector.encode_training import VectorTraining
from regard.outputs.vector.texts_looking import Other, texts_case

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

    def given_candidates(self, model: Embedder, inputs: Sequence[str], outputs: Sequence[str]) -> list[Candidate]:
        """Return the cosine of the two vectors of each input and output."""
        cosines = self._cosines(
            model, [self.read_text(one) for one in inputs], [self.read_text(one) for one in outputs]
        )
        return [Candidate(other, score=cosine) for other, cosine in zip(outputs, cosines, strict=True)]

    def _cosines(self, model: Embedder, items: Sequence[TextItem], others: Sequence[TextItem]) -> list[float]:
        side = self.side(model)
        return (side.unit(items) * side.unit(others)).sum(1).tolist()

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Embedder, one: str, options: LookOptions) -> list[Told]:
        if options.output is None:
            if options.method in COMPARING:
                raise CallError(
                    "this method explains the cosine of two texts: give the other one (output=..., --target)"
                )
            return [Told(None, "")]
        item, other = self.read_text(one), self.read_text(options.output)
        joined = model.encoder.types is not None and options.method not in COMPARING
        return [Told(Other(other, joined), other.text, self._cosines(model, [item], [other])[0])]

    def case(self, model: Embedder, one: str, told: Told) -> Case:
        """Return the case of the text's self-attention. With another text: of both as one pair, if the encoder has
        segments, as BERT has. Otherwise, and for methods that explain the cosine of the two: of the text and its
        pooled vector.
        """
        item, other = self.read_text(self.item_of(one).text), told.target
        if other is None or other.joined:
            return texts_case(model, self.input, item, None if other is None else other.item, self.most - 1)
        side, axes = self.side(model), {"source": self.input.axis(item), "target": whole(told.text)}
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
