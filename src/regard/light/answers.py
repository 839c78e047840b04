"""Question answering with the graph `model`: two pointers for each window of a document."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from regard.data.tokenizer import Tokenizer
from regard.inputs.question.windows import QuestionReader, WindowItem
from regard.light.description import Description
from regard.light.inputs import LightInput, padded_ids
from regard.light.outputs import LightOutput
from regard.light.record import Between, record_of
from regard.light.rules import normalizer
from regard.light.session import Arrays, Session, seen_in
from regard.look.records import AttentionRecord
from regard.outputs.result import Candidate, Prediction
from regard.outputs.span.placing import axes_of, between, shown_window
from regard.outputs.span.reading import Asking


class LightQuestion(QuestionReader, LightInput):
    kind: ClassVar[str] = "text"

    def __init__(self, about: Description) -> None:
        super().__init__(about)
        self.tokenizer, self.marked = Tokenizer.of_run(about.folder), self.reads["marked"]

    def collate(self, items: Sequence[WindowItem]) -> Arrays:
        pad = self.reads["pad"]
        sides = {"question": [item.question for item in items], "document": [item.document for item in items]}
        return {name: padded_ids([ids or [pad] for ids in side], pad) for name, side in sides.items()}


class LightSpans(LightOutput):
    gives: ClassVar[str] = "a position in the text"

    def __init__(self, about: Description, input: Any) -> None:
        super().__init__(about, input)
        self._model = Session(about.folder / "model.onnx")

    @property
    def _asking(self) -> Asking:
        return Asking(self._point, self.input, self.recipe)

    def _point(self, items: Sequence[WindowItem]) -> tuple[np.ndarray, np.ndarray]:
        found = self._model(self.input.collate(items))
        return found["start_logits"], found["end_logits"]

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Prediction]:
        asking = self._asking
        return [asking.prediction(*one) for one in zip(inputs, asking.answers(inputs), strict=True)]

    def given_candidates(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        return [*self._asking.given(inputs, outputs)]

    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        document, records = self.input.document(one).text, []
        for answer in self._asking.looked_at(one, output):
            shown = shown_window(self.input, one, answer.span)
            found = self._model(self.input.collate([shown.item]), watch=True)
            tables = {name: weights[0] for name, weights in seen_in(found).items()}
            pointers = zip((found["start_logits"][0], found["end_logits"][0]), shown[1:], strict=True)
            score = sum(float(logits[place] - normalizer(logits)) for logits, place in pointers)
            records.append(record_of(
                tables, self.roles, Between(axes_of(self.input, shown, answer.text)),
                between(*self.input.sides(shown.item)), output=answer.text, score=answer.score, scores=(score,),
                said=answer.marked(document),
            ))  # fmt: skip
        return records
