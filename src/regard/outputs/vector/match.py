"""Pictures and texts in one space: find the text that describes a picture, or the picture of a text.

pictures and captions → stores → batches → two towers → each pair contrasted with the others       (training)
picture, labels → vectors → cosines → the label that fits best, though none was trained on          (prediction)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import nn

from regard.data.examples import Example
from regard.inputs.media_store import MediaExamples
from regard.look.axis import whole
from regard.look.case import Case
from regard.metrics.retrieval import BothWays, places_of, ranks, retrieval_both_ways
from regard.models.two_towers import TwoTowers
from regard.outputs.base import Told
from regard.outputs.looking import LookOptions
from regard.outputs.result import Candidate, Measure, Prediction, Scores, Tally
from regard.outputs.vector.matching import Matching
from regard.outputs.vector.two_towers import TwoTowersOutput

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

    def given_candidates(self, model: TwoTowers, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        """Return the cosine of each picture and its text."""
        cosines = self._matching(model).cosines(inputs, outputs)
        return [Candidate(text, score=cosine) for text, cosine in zip(outputs, cosines, strict=True)]

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: TwoTowers, one: Any, options: LookOptions) -> list[Told]:
        """Return the texts to explain, with their cosines: the given one, or the best ones."""
        texts = [options.output]
        if options.output is None:
            texts = [candidate.text for candidate in self.predict(model, [one])[0].n_best]
        cosines = self.similarity(model, [one], texts)[0].tolist()
        return [Told(text, text, cosine) for text, cosine in zip(texts, cosines, strict=True)]

    def reader(self, model: TwoTowers) -> nn.Module:
        return model.image

    def case(self, model: TwoTowers, one: Any, told: Told) -> Case:
        """Return the case: the text's attention over the regions of the picture, and the weights of the text tower
        over its words.
        """
        picture, said = self.input.read(one), self.read_text(told.target)
        image, text = self.side(model.image, self.input), self.side(model.text, self.text)
        axes = {"target": whole(told.text), "source": self.input.axis(picture), "read": self.text.axis(said)}
        words = text.case(model, said, image.vectors([picture])[0], axes, columns="read", kind="decoder")
        return image.case(model, picture, text.vectors([said])[0], axes, beside=[words])

    # ------------------------------------------------------------------------------------------------------ evaluation
    def test_scores(self, model: TwoTowers, examples: Sequence[Example], alignments: bool) -> Scores:
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

    def answers(self, model: TwoTowers, examples: Sequence[Example]) -> Float[np.ndarray, "N M"]:
        """Return the similarity of each picture and each caption."""
        texts = [text for example in examples for text in example.texts]
        return self.similarity(model, [example.input for example in examples], texts).numpy()

    def baselines(self, train: Any, examples: Sequence[Example]) -> dict[str, Float[np.ndarray, "N M"]]:
        captions = sum(len(example.texts) for example in examples)
        return {"chance": np.random.default_rng(0).random((len(examples), captions))}

    def tally(self, answers: Float[np.ndarray, "N M"], examples: Sequence[Example]) -> Tally:
        places = places_of([example.texts for example in examples])
        return Tally.of_hits(ranks(answers, np.eye(answers.shape[1]), places) == 1)

    def _told_apart(self, model: TwoTowers, examples: Sequence[Example]) -> BothWays:
        images = self.image_vectors(model, [example.input for example in examples])
        captions = self.text_vectors(model, [text for example in examples for text in example.texts])
        return retrieval_both_ways(images.numpy(), captions.numpy(), [example.texts for example in examples])
