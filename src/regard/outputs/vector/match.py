"""Pictures and texts in one space: which text says what a picture shows, and which picture shows what a text says.

pictures and captions → stores → batches → two towers → each pair told apart from the others       (training)
picture, labels → vectors → cosines → the label that fits best, though none was trained on          (prediction)
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from regard.data.examples import Example
from regard.errors import CallError
from regard.inputs.media_store import MediaExamples
from regard.look.axis import whole
from regard.look.case import Case
from regard.metrics.retrieval import BothWays, retrieval_both_ways
from regard.models.two_towers import TwoTowers
from regard.outputs.base import Told
from regard.outputs.looking import LookOptions
from regard.outputs.result import Candidate, Labeled, Prediction, Scores
from regard.outputs.vector.settings import LABEL
from regard.outputs.vector.two_towers import TwoTowersOutput

QUICK = 500  # validation pictures that are told apart while training goes on


class Match(TwoTowersOutput):
    def quick(self, model: TwoTowers, valid: MediaExamples) -> dict[str, float]:
        """How well some pictures and their captions find each other."""
        return {"temperature": 1 / model.scale.item(), **self._told_apart(model, valid.examples(QUICK)).values}

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: TwoTowers, inputs: Sequence[Any]) -> list[Prediction]:
        """Which of the labels (or, without any, of the kept captions) says best what each picture shows."""
        labels = self.recipe.decoding.labels or self.captions
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

    def given_candidates(self, model: TwoTowers, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        """The cosine of each picture and its text."""
        cosines = (self.image_vectors(model, inputs) * self.text_vectors(model, outputs)).sum(1).tolist()
        return [Candidate(text, score=cosine) for text, cosine in zip(outputs, cosines, strict=True)]

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: TwoTowers, one: Any, options: LookOptions) -> list[Told]:
        """What is looked at is the cosine with a text: the given one, or those that fit best."""
        texts = [options.output]
        if options.output is None:
            texts = [candidate.text for candidate in self.predict(model, [one])[0].n_best]
        cosines = self.similarity(model, [one], texts)[0].tolist()
        return [Told(text, text, cosine) for text, cosine in zip(texts, cosines, strict=True)]

    def reader(self, model: TwoTowers) -> nn.Module:
        return model.image

    def case(self, model: TwoTowers, one: Any, told: Told) -> Case:
        """The text looks at the regions of the picture; beside it stands which of its words the text tower heeds."""
        picture, said = self.input.read(one), self.read_text(told.target)
        image, text = self.side(model.image, self.input), self.side(model.text, self.text)
        axes = {"target": whole(told.text), "source": self.input.axis(picture), "read": self.text.axis(said)}
        words = text.case(model, said, image.vectors([picture])[0], axes, columns="read", kind="decoder")
        return image.case(model, picture, text.vectors([said])[0], axes, beside=[words])

    # ------------------------------------------------------------------------------------------------------ evaluation
    def test_scores(self, model: TwoTowers, examples: Sequence[Example], alignments: bool) -> Scores:
        """Recall at 1, 5 and 10 both ways beside chance; and zero-shot accuracy, where there are labeled pictures."""
        found = self._told_apart(model, examples)
        values = {**found.values, "pictures": float(len(examples))}
        if self.recipe.data.zero_shot is not None:
            pictures, right = self.labeled_pictures(self.recipe.data.zero_shot)
            labels = sorted(set(right))
            said = (self.image_vectors(model, pictures) @ self._labels(model, labels).T).argmax(1).tolist()
            values |= {
                "zero_shot_accuracy": 100
                * float(np.mean([labels[n] == one for n, one in zip(said, right, strict=True)])),
                "zero_shot_by_chance": 100 / len(labels),
                "zero_shot_pictures": float(len(right)),
            }
        percent = [name for name in values if "_at_" in name or name in ("zero_shot_accuracy", "zero_shot_by_chance")]
        return Scores(values, {}, {"recall, in percent": found.rows}, percent=percent)

    def _told_apart(self, model: TwoTowers, examples: Sequence[Example]) -> BothWays:
        images = self.image_vectors(model, [example.input for example in examples])
        captions = self.text_vectors(model, [text for example in examples for text in example.texts])
        return retrieval_both_ways(images.numpy(), captions.numpy(), [example.texts for example in examples])
