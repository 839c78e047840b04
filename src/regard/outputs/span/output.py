"""A span comes out: two pointers into a document say where the answer to a question begins and ends.

question, document → windows → reader → two pointers → the best valid spans of all windows → text
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example, Examples
from regard.encoders.bert import Bert
from regard.errors import CallError
from regard.inputs.base import Vocabulary
from regard.inputs.question.input import QuestionInput
from regard.look.answer import Answer as AnswerShown
from regard.look.case import Case
from regard.models.reader import PairReader, Reader
from regard.models.recurrent_reader import RecurrentReader
from regard.outputs.base import LookOptions, Output, Told
from regard.outputs.result import Prediction, Scores
from regard.outputs.span.looking import reader_case
from regard.outputs.span.reading import Answer, Answers, Found, find
from regard.outputs.span.scores import answer_scores, scores_of
from regard.outputs.span.settings import AnswerRecipe, PretrainedReaderSettings, RecurrentReaderSettings
from regard.parts import build_score

QUESTIONS = 500  # of validation that are answered while training goes on
ALL = 10**9  # spans of a window: as many as there are


class SpanOutput(Output[AnswerRecipe, QuestionInput, Reader]):
    gives: ClassVar[str] = "a place in the text"
    unit: ClassVar[str] = "windows"

    @property
    def vocabulary(self) -> Vocabulary:
        """Answers are words of the documents."""
        return self.input.tokenizer

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        return torch.from_numpy(np.stack(targets) if len(targets) else np.full((1, 2), -1))

    # ------------------------------------------------------------------------------------------------------- training
    def build(self) -> Reader:
        encoder: Any = self.input.encoder()  # word vectors, or a Transformer, as the settings have it
        s, pad = self.recipe.model, self.input.pad
        if isinstance(s, RecurrentReaderSettings):
            return RecurrentReader(
                encoder, s.width, score=partial(build_score, s.score, s.width, s.width, s.width),
                to_document=s.to_document, cell=s.cell, depth=s.layers, reading_depth=s.reading_layers,
                match=s.match, dropout=s.dropout, pad=pad,
            )  # fmt: skip
        specials, sizes = self.input.tokenizer.specials, self.input.sizes
        if specials.start is None or specials.end is None:
            raise CallError("this vocabulary has no tokens that begin and end a text, which a pair of texts needs")
        if isinstance(s, PretrainedReaderSettings) and s.frozen:
            _freeze(encoder, s.frozen)
        return PairReader(
            encoder, sizes.width, cls=specials.start, sep=specials.end, pad=pad, types=sizes.token_types > 1,
            dropout=sizes.dropout,
        )  # fmt: skip

    def quick(self, model: Reader, valid: Examples) -> dict[str, float]:
        """Exact match and F1 of the first few questions."""
        examples = valid.examples(QUESTIONS)
        said = [found.text for found in self.predict(model, [example.input for example in examples])]
        exact, f1 = answer_scores(said, examples, self.recipe.data.no_answer)
        return {"exact_match": exact, "f1": f1}

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: Reader, inputs: Sequence[Any]) -> list[Prediction]:
        found = self._find(model, inputs)
        return [self._prediction(one, self._answers(spans)) for one, spans in zip(inputs, found, strict=True)]

    def score(self, model: Reader, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Prediction]:
        """log p of given answers: of the best place in the document where each stands."""
        found = self._find(model, inputs, n_best=ALL)
        return [
            self._prediction(one, [self._given(one_found, said, number)])
            for number, (one, said, one_found) in enumerate(zip(inputs, outputs, found, strict=True), start=1)
        ]

    def _find(self, model: Reader, inputs: Sequence[Any], **how: Any) -> list[Found]:
        return find(model, self.input, inputs, self.recipe.decoding.model_copy(update=how))

    def _prediction(self, one: Any, answers: list[Answer]) -> Prediction:
        question, document = self.input.asked(one)
        return Answers(question, answers, document=document)

    def _answers(self, found: Found) -> list[Answer]:
        """With data.no_answer, the empty answer stands among the others, first if it wins."""
        if not found.spans:
            return [Answer("", 0.0)]
        answers = [self._answer(found, span.score, found.chars(span)) for span in found.spans]
        if self.recipe.data.no_answer:
            silence = self._answer(found, found.none, None)
            wins = found.odds > self.recipe.decoding.threshold
            place = 0 if wins else max(1, sum(span.score >= found.none for span in found.spans))
            answers.insert(place, silence)
        return answers[: self.recipe.decoding.n_best]

    def _answer(self, found: Found, score: float, chars: tuple[int, int] | None) -> Answer:
        """With its log-probability among all spans, and *no answer* where that may be said."""
        total = np.logaddexp(found.total, found.none) if self.recipe.data.no_answer else found.total
        score = float(score - total)
        return Answer("", score) if chars is None else Answer(found.text(chars), score, None, *chars)

    def _given(self, found: Found, said: str, number: int) -> Answer:
        """An answer that was given, at the best of its places; `found` has all spans there are."""
        if not said and self.recipe.data.no_answer:
            return self._answer(found, found.none, None)
        text = found.document.text
        places = [place.start() for place in re.finditer(re.escape(said), text)] if said else []
        wanted = {found.document.tokens_of(start, start + len(said)) for start in places}
        best = next((span for span in found.spans if (span.first, span.last) in wanted), None)
        if best is None:
            most = self.recipe.decoding.max_length
            reason = f"has more than decoding.max_length={most} tokens" if places else "is not in the document"
            raise CallError(f"output {number}: {said!r} {reason}")
        return self._answer(found, best.score, found.chars(best))

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Reader, one: Any, options: LookOptions) -> list[Told]:
        if options.output is None:
            answers = self._answers(self._find(model, [one])[0])
        else:
            answers = [self._given(self._find(model, [one], n_best=ALL)[0], options.output, 1)]
        document = self.input.document(one).text
        return [Told(answer.span, answer.text, answer.score, _marked(document, answer)) for answer in answers]

    def case(self, model: Reader, one: Any, told: Told) -> Case:
        return reader_case(model, self.input, one, told)

    # ------------------------------------------------------------------------------------------------------ evaluation
    def test_scores(self, model: Reader, examples: Sequence[Example], alignments: bool) -> Scores:
        """Exact match and F1 as SQuAD's scripts compute them; by kind of question."""
        found = self._find(model, [example.input for example in examples])
        said = [self._answers(one)[0].text for one in found]
        return scores_of(said, found, examples, self.recipe.data.no_answer)


def _marked(document: str, answer: Answer) -> AnswerShown:
    return AnswerShown("marks", text=document, marks=() if answer.span is None else ((*answer.span, "answer"),))


def _freeze(encoder: Bert, layers: int) -> None:
    """The first so many layers, and what is below them."""
    for part in (encoder.embedding, encoder.types, encoder.embedding_norm, *encoder.layers[:layers]):
        if part is not None:
            part.requires_grad_(False)
