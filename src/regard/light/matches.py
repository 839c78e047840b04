"""Pictures and texts in one space, with the graphs `image` and `text`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from regard.light.description import Description
from regard.light.outputs import LightOutput
from regard.light.record import Between, Side, record_of_sides
from regard.light.session import Arrays, Session, seen_in
from regard.light.texts import LightText
from regard.look.axis import whole
from regard.look.pooled_attention import pooled
from regard.look.records import AttentionRecord
from regard.outputs.groups import grouped
from regard.outputs.result import Candidate, Prediction
from regard.outputs.vector.matching import Matching, load_captions, matchable


class LightMatches(LightOutput):
    gives: ClassVar[str] = "a vector"

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self.text, self.captions = LightText(replace(about, reads=self.says["text"])), load_captions(about.folder)
        self._image, self._text = (Session(about.folder / f"{side}.onnx") for side in ("image", "text"))

    @property
    def _matching(self) -> Matching:
        return Matching(self.recipe, self.captions, self.says["scale"], self._of_pictures, self._of_texts)

    def _of_pictures(self, pictures: Sequence[Any]) -> np.ndarray:
        return self._vectors(self._image, self.input, [self.input.read(one) for one in pictures])

    def _of_texts(self, texts: Sequence[str]) -> np.ndarray:
        return self._vectors(self._text, self.text, [self._read(text) for text in texts])

    def _vectors(self, tower: Session, input: Any, items: Sequence[Any]) -> np.ndarray:
        def work(numbers: list[int]) -> list[np.ndarray]:
            return list(tower(input.collate([items[number] for number in numbers]))["vector"])

        found = grouped([input.length(item) for item in items], self.recipe.decoding.batch_tokens, work)
        return np.array(found, np.float32)

    def _read(self, text: str) -> Any:
        return matchable(self.text, text, self.recipe.data.max_length - 1)

    def similarity(self, pictures: Sequence[Any], texts: Sequence[str]) -> np.ndarray:
        """Return the cosines of pictures and texts: pictures × texts."""
        return self._of_pictures(pictures) @ self._of_texts(texts).T

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        return [*self._matching.predictions([self.input.name(one) for one in inputs], inputs)]

    def given_candidates(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        cosines = self._matching.cosines(inputs, outputs)
        return [Candidate(text, score=cosine) for text, cosine in zip(outputs, cosines, strict=True)]

    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        """Explain the text's attention over the regions of the picture, with the weights of the text tower over its
        words.
        """
        texts = [candidate.text for candidate in self.predict([one])[0].n_best] if output is None else [output]
        picture, first, records = self.input.read(one), self.says["first"], []
        image = self._image(self.input.collate([picture]), watch=True)
        for said in texts:
            item = self._read(said)
            text = self._text(self.text.collate([item]), watch=True)
            axes = {"target": whole(said), "source": self.input.axis(picture), "read": self.text.axis(item)}
            words = Between(axes, columns="read", kind="decoder")
            sides = [
                Side(_of_one(image), Between(axes), pooled(first["image"])),
                Side(_of_one(text), words, pooled(first["text"])),
            ]
            cosine = float(image["vector"][0] @ text["vector"][0])
            records.append(record_of_sides(sides, self.roles, output=said, score=cosine, scores=(cosine,)))
        return records


def _of_one(found: Arrays) -> Arrays:
    return {name: weights[0] for name, weights in seen_in(found).items()}
