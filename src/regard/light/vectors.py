"""One vector for each text, with the graph `model`."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from regard.errors import CallError
from regard.light.description import Description
from regard.light.outputs import LightOutput
from regard.light.record import Between, record_of
from regard.light.session import Session, seen_in
from regard.light.texts import TextItem
from regard.look.axis import whole
from regard.look.pooled_attention import pooled
from regard.look.records import AttentionRecord
from regard.outputs.groups import grouped
from regard.outputs.result import Candidate, Prediction, Vector


class LightVectors(LightOutput):
    gives: ClassVar[str] = "a vector"
    gives_vectors: ClassVar[bool] = True

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self._model = Session(about.folder / "model.onnx")

    def predict(self, inputs: Sequence[str], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        return [Vector.of(text, vector) for text, vector in zip(inputs, self._vectors(inputs), strict=True)]

    def given_candidates(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[Candidate]:
        """Return the cosine of the two vectors of each input and output."""
        sides = [np.array(self._vectors(side)) for side in (inputs, outputs)]
        one, other = (side / np.maximum(np.linalg.norm(side, axis=-1, keepdims=True), 1e-12) for side in sides)
        return [
            Candidate(said, score=float(cosine)) for said, cosine in zip(outputs, (one * other).sum(-1), strict=True)
        ]

    def look(self, one: str, output: str | None, prefix: str) -> list[AttentionRecord]:
        """Explain self-attention of the text; with another one, of the text and its pooled vector."""
        if output is not None and self.says["joins"]:
            raise CallError("this model reads two texts as one pair, but an export reads one at a time: use the run")
        item = self._item(self.input.item_of(one).text)
        seen = seen_in(self._model(self.input.collate([item]), watch=True))
        tables, axes = {name: weights[0] for name, weights in seen.items()}, {"source": self.input.axis(item)}
        if output is None:
            return [record_of(tables, self.roles, Between(axes))]
        score = self.given_candidates([one], [output])[0].score
        between = Between({**axes, "target": whole(output)})
        told = {"output": output, "score": score, "scores": (score,)}
        return [record_of(tables, self.roles, between, pooled(self.says["first"]), **told)]

    def _vectors(self, texts: Sequence[str]) -> list[np.ndarray]:
        items = [self._item(text) for text in texts]

        def work(numbers: list[int]) -> list[np.ndarray]:
            return list(self._model(self.input.collate([items[number] for number in numbers]))["vector"])

        lengths = [self.input.length(item) for item in items]
        return grouped(lengths, self.recipe.vectors.batch_tokens, work)

    def _item(self, text: str) -> TextItem:
        """Return the item of a text: truncated at the model's limit, or an error."""
        item, most = self.input.read(text), self.recipe.data.max_length - 1
        if len(item.ids) > most and self.recipe.data.overlong != "cut":
            raise CallError(f"the text {text[:40]!r} has {len(item.ids)} tokens, more than the model's limit of {most}")
        return item._replace(ids=item.ids[:most])
