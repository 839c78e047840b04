"""Span output: two pointers mark the start and end of the answer to a question in a document.

question, document → windows → reader → two pointers → the best valid spans of all windows → text
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example, Examples
from regard.errors import CallError
from regard.inputs.base import Vocabulary
from regard.inputs.question.input import QuestionInput
from regard.inputs.question.windows import WindowItem
from regard.look.case import Case
from regard.models.reader import PairReader, Reader
from regard.models.recurrent_reader import RecurrentReader
from regard.outputs.base import Output, Told
from regard.outputs.batched import device_of
from regard.outputs.looking import LookOptions
from regard.outputs.result import Measure, Prediction, Scores, Tally
from regard.outputs.span.looking import reader_case
from regard.outputs.span.reading import Asking
from regard.outputs.span.scores import answer_scores, f1_tally, scores_of, simple_answers
from regard.outputs.span.settings import AnswerRecipe, PretrainedReaderSettings, RecurrentReaderSettings
from regard.parts import build_score

QUESTIONS = 500  # validation questions answered during training


class SpanOutput(Output[AnswerRecipe, QuestionInput, Reader]):
    gives: ClassVar[str] = "a position in the text"
    unit: ClassVar[str] = "windows"

    @property
    def vocabulary(self) -> Vocabulary:
        """Raise: answers are spans of the documents and have no vocabulary."""
        return self.input.tokenizer

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        return torch.from_numpy(np.stack(targets) if len(targets) else np.full((1, 2), -1))

    # ------------------------------------------------------------------------------------------------------- training
    def build(self) -> Reader:
        encoder: Any = self.input.encoder()  # word vectors or a Transformer, by the settings
        s, pad = self.recipe.model, self.input.pad
        if isinstance(s, RecurrentReaderSettings):
            return RecurrentReader(
                encoder, s.width, score=partial(build_score, s.score, s.width, s.width, s.width),
                to_document=s.to_document, cell=s.cell, depth=s.layers, reading_depth=s.reading_layers,
                match=s.match, dropout=s.dropout, pad=pad,
            )  # fmt: skip
        specials, sizes = self.input.tokenizer.specials, self.input.sizes
        if specials.start is None or specials.end is None:
            raise CallError("this vocabulary has no start and end tokens, which a pair of texts needs")
        if isinstance(s, PretrainedReaderSettings) and s.frozen:
            encoder.freeze(s.frozen)
        return PairReader(
            encoder, sizes.width, cls=specials.start, sep=specials.end, pad=pad, types=sizes.token_types > 1,
            dropout=sizes.dropout,
        )  # fmt: skip

    def quick(self, model: Reader, valid: Examples) -> dict[str, float]:
        """Return exact match and F1 of some questions, evenly spread over all."""
        examples = valid.examples(QUESTIONS)
        said = [found.text for found in self.predict(model, [example.input for example in examples])]
        exact, f1 = answer_scores(said, examples, self.recipe.data.no_answer)
        return {"exact_match": exact, "f1": f1}

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: Reader, inputs: Sequence[Any]) -> list[Prediction]:
        asking = self._asking(model)
        return [asking.prediction(*one) for one in zip(inputs, asking.answers(inputs), strict=True)]

    def score(self, model: Reader, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Prediction]:
        """Return log p of given answers: each at its best position in the document."""
        asking = self._asking(model)
        given = zip(inputs, asking.given(inputs, outputs), strict=True)
        return [asking.prediction(one, [answer]) for one, answer in given]

    def _asking(self, model: Reader) -> Asking:
        device = device_of(model)

        @torch.inference_mode()
        def point(items: Sequence[WindowItem]) -> tuple[NDArray[Any], NDArray[Any]]:
            pair = self.input.collate(items).to(device)
            start, end = model.point(pair.question, pair.document)
            return start.float().cpu().numpy(), end.float().cpu().numpy()

        return Asking(point, self.input, self.recipe)

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Reader, one: Any, options: LookOptions) -> list[Told]:
        answers, document = self._asking(model).looked_at(one, options.output), self.input.document(one).text
        return [Told(answer.span, answer.text, answer.score, answer.marked(document)) for answer in answers]

    def case(self, model: Reader, one: Any, told: Told) -> Case:
        return reader_case(model, self.input, one, told)

    # ------------------------------------------------------------------------------------------------------ evaluation
    def measure(self) -> Measure:
        return Measure("f1")

    def baselines(self, train: Examples, examples: Sequence[Example]) -> dict[str, list[str]]:
        return simple_answers(train, examples, self.recipe.data.no_answer)

    def tally(self, answers: Sequence[str], examples: Sequence[Example]) -> Tally:
        return f1_tally(answers, examples, self.recipe.data.no_answer)

    def test_scores(self, model: Reader, examples: Sequence[Example], alignments: bool) -> Scores:
        """Return exact match and F1 as SQuAD's scripts compute them, also by kind of question."""
        asking = self._asking(model)
        found = asking.found([example.input for example in examples])
        said = [answers[0].text for answers in asking.best(found)]
        return scores_of(said, found, examples, self.recipe.data.no_answer)
