"""Extractive question answering: a question and a document give a span of the document.

questions → token ids → windows → batches → reader → two pointers → loss                     (training)
question, document → token ids → windows → reader → best valid spans of all windows → text   (prediction)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.check_report import CheckReport
from regard.data.pairs import Bad
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.errors import CallError
from regard.inputs.question.check import check_questions
from regard.inputs.question.files import Question
from regard.inputs.question.prepare import PreparedQuestions, prepare_questions
from regard.inputs.question.source import QuestionSplit, question_source
from regard.inputs.question.windows import WindowBatches
from regard.look import AttentionRecord, heat_map
from regard.models.reader import Reader
from regard.old_job import PLAIN, Output, Picture, Prediction, Scores, Wish
from regard.outputs.span import looking as answer_looking
from regard.outputs.span import scores as answer_scores
from regard.outputs.span.build import build_reader
from regard.outputs.span.reading import Ask, Found, Texts, find
from regard.outputs.span.settings import AnswerRecipe, PretrainedReaderSettings, RecurrentReaderSettings
from regard.pretrained import encoder, keep_settings, kept_settings
from regard.settings.encoder import EncoderSettings
from regard.settings.recipe import Recipe

QUICK = 500  # validation questions that are answered while training goes on
PICTURES, WIDEST = 4, 120  # in the report, and the most columns one may have
MEAN = "Attention between the question (rows) and the document (columns; the answer in brackets), the mean of all."


@dataclass(frozen=True)
class Answer(Output):
    """A span of the document: characters start ≤ i < end. No answer is the empty text, without a place."""

    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Answers(Prediction):
    """The answers to one question, best first. `score` is the log-probability among all spans of the document."""

    document: str = ""

    @property
    def best(self) -> Answer:
        answer = self.n_best[0]
        assert isinstance(answer, Answer)
        return answer

    @property
    def start(self) -> int | None:
        return self.best.start

    @property
    def end(self) -> int | None:
        return self.best.end

    def as_dict(self) -> dict[str, Any]:
        return super().as_dict() | {"start": self.start, "end": self.end}


class AnswerQuestions:
    """The job, under one recipe. `prepare` (training) or `restore` (prediction) brings the tokenizer and the sizes."""

    def __init__(
        self, recipe: Recipe, tokenizer: Tokenizer | None = None, settings: EncoderSettings | None = None
    ) -> None:
        assert isinstance(recipe, AnswerRecipe)
        self.recipe = recipe
        self._tokenizer, self._settings = tokenizer, settings
        self._first: dict[str, Tensor] | None = None  # weights that training begins with
        self._prepared: PreparedQuestions | None = None

    def under(self, recipe: Recipe) -> "AnswerQuestions":
        return AnswerQuestions(recipe, self._tokenizer, self._settings)

    # ------------------------------------------------------------------------------------------------------- training
    def prepare(self, cache: Path) -> None:
        self._prepared = self._read(cache, strict=True)
        self._tokenizer = self._prepared.tokenizer

    def check(self, cache: Path) -> CheckReport:
        """What is wrong with the data, and what the model will cost on it."""
        prepared = self._read(cache, strict=False)
        report = check_questions(self.recipe.data, prepared)
        return replace(report, estimates=answer_scores.estimates(self.recipe, self._sizes(), prepared))

    def _read(self, cache: Path, *, strict: bool) -> PreparedQuestions:
        model = self.recipe.model
        if isinstance(model, PretrainedReaderSettings) and self._tokenizer is None:
            found = encoder(model.path, dropout=model.dropout)
            self._settings, self._tokenizer, self._first = found.settings, found.tokenizer, found.weights
            if found.settings.positions == "learned" and self.recipe.data.max_length > found.settings.max_positions:
                raise CallError(
                    f"data.max_length={self.recipe.data.max_length} is more than the {found.settings.max_positions} "
                    f"positions that the encoder of {model.path} knows"
                )
        return prepare_questions(self.recipe.data, cache, tokenizer=self._tokenizer, strict=strict)

    def _sizes(self) -> RecurrentReaderSettings | EncoderSettings:
        model = self.recipe.model
        if not isinstance(model, PretrainedReaderSettings):
            return model
        assert self._settings is not None, "prepare or restore comes first"
        return self._settings

    def build(self) -> Reader:
        torch.manual_seed(self.recipe.training.seed)
        model = self.recipe.model
        frozen = model.frozen if isinstance(model, PretrainedReaderSettings) else 0
        return build_reader(self._sizes(), self.tokenizer, self._first, frozen)

    def batches(self) -> WindowBatches:
        return answer_scores.batches(self.recipe, self.data.train, self.texts.pad)

    def fingerprint(self) -> str:
        return self.data.train.digest()

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Loss a window of all validation questions; exact match and F1 of the first few."""
        assert isinstance(model, Reader)
        loss = answer_scores.loss(model, answer_scores.batches(self.recipe, self.data.valid, self.texts.pad))
        items = _questions(self.data.splits["valid"], QUICK)
        found = self._find(model, [Ask(item.question, item.document) for item in items])
        scores = answer_scores.score([self._said(one) for one in found], items, self.recipe.data.no_answer)
        return {**loss, "exact_match": scores.exact, "f1": scores.f1}

    def sample(self, model: nn.Module) -> str:
        items = _questions(self.data.splits["valid"], QUICK)
        item = items[len(items) // 2]
        said = self._said(self._find(model, [Ask(item.question, item.document)])[0])
        return f"{item.question}\n→ {said or '(no answer)'}\n= {' | '.join(dict.fromkeys(item.texts)) or '(no answer)'}"

    def pictures(self, model: nn.Module) -> list[Picture]:
        """Where the words of a few validation questions look."""
        items = sorted(_questions(self.data.splits["valid"], QUICK), key=lambda item: len(item.document))
        pictures = []
        for item in items[:: max(1, len(items) // PICTURES)][:PICTURES]:
            seen = self.look(model, Ask(item.question, item.document))
            matrix = seen.matrix()
            if len(matrix.columns) <= WIDEST:
                svg = heat_map(matrix.weights, matrix.rows.labels, matrix.columns.labels, seen.output)
                pictures.append(Picture(f"{item.question} → {seen.output or '(no answer)'}", svg, MEAN))
        return pictures

    # ----------------------------------------------------------------------------------------------------- the folder
    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        if self._settings is not None:
            keep_settings(self._settings, folder)

    def restore(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.of_run(folder)
        if isinstance(self.recipe.model, PretrainedReaderSettings):
            self._settings = kept_settings(folder)

    # ----------------------------------------------------------------------------------------------------- prediction
    def inputs(self, words: Sequence[str]) -> list[Ask]:
        """Lines `question<TAB>document`."""
        return [self._ask(word, number) for number, word in enumerate(words, start=1)]

    def about(self, questions: Sequence[str], document: str) -> list[Ask]:
        return [Ask(question, document) for question in questions]

    def predict(
        self, model: nn.Module, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        """Inputs: `Ask`, (question, document), a mapping of both, or a text with a tab or a line end between."""
        if prefix:
            raise CallError(f"prefix={prefix!r}: an answer is a span of the document, and cannot be made to begin so")
        asks = [self._ask(item, number) for number, item in enumerate(inputs, start=1)]
        return [
            Answers(ask.question, self._answers(found), document=ask.document)
            for ask, found in zip(asks, self._find(model, asks), strict=True)
        ]

    def _ask(self, item: Any, number: int) -> Ask:
        if isinstance(item, str):
            question, apart, document = item.partition("\t" if "\t" in item else "\n")
            if apart:
                return Ask(question, document)
        elif isinstance(item, Mapping):
            found = item.get("question"), item.get("document")
            if all(isinstance(text, str) for text in found) and len(item) == 2:
                return Ask(*found)  # pyright: ignore[reportArgumentType]
        elif isinstance(item, tuple | list) and len(item) == 2 and all(isinstance(text, str) for text in item):
            return Ask(*item)
        raise CallError(
            f"input {number} is not a question and a document: give question<TAB>document (on the command line also "
            '"question" --document FILE), or in Python {"question": ..., "document": ...}'
        )

    def _find(self, model: nn.Module, asks: Sequence[Ask]) -> list[Found]:
        assert isinstance(model, Reader)
        return find(model, self.texts, asks, self.recipe.decoding)

    def _silent(self, found: Found) -> bool:
        return not found.spans or (self.recipe.data.no_answer and found.odds > self.recipe.decoding.threshold)

    def _said(self, found: Found) -> str:
        return "" if self._silent(found) else found.text(found.spans[0])

    def _answers(self, found: Found) -> list[Output]:
        """With data.no_answer, the empty answer stands among the others, first if it wins."""
        if not found.spans:
            return [Answer("", 0.0, 0.0)]
        total = np.logaddexp(found.total, found.none) if self.recipe.data.no_answer else found.total
        answers: list[Output] = []
        for span in found.spans:
            score = float(span.score - total)
            answers.append(Answer(found.text(span), score, score, *found.chars(span)))
        if self.recipe.data.no_answer:
            score = float(found.none - total)
            place = 0 if self._silent(found) else max(1, sum(answer.score >= score for answer in answers))
            answers.insert(place, Answer("", score, score))
        return answers[: self.recipe.decoding.n_best]

    def score(self, model: nn.Module, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Prediction]:
        """log p of given answers: of the best place in the document where each stands."""
        assert isinstance(model, Reader)
        asks = [self._ask(item, number) for number, item in enumerate(inputs, start=1)]
        return [
            Answers(ask.question, [Answer(text, score, score, *chars)], document=ask.document)
            for ask, text, (score, chars) in zip(
                asks, outputs, answer_scores.given(model, self.texts, asks, outputs, self.recipe), strict=True
            )
        ]

    def look(self, model: nn.Module, text: Any, wish: Wish = PLAIN) -> AttentionRecord:
        """Which words of the document the question's look at, when this answer, or the given one, is pointed to."""
        assert isinstance(model, Reader)
        if wish.gold is not None:
            raise CallError("gold links are for translations; a question's words have none with its document")
        ask = self._ask(text, 1)
        if wish.output is not None:
            score, chars = answer_scores.given(model, self.texts, [ask], [wish.output], self.recipe)[0]
        else:
            best = self._answers(self._find(model, [ask])[0])[0]
            assert isinstance(best, Answer)
            score, chars = best.score, None if best.start is None or best.end is None else (best.start, best.end)
        record = answer_looking.look(model, self.texts, ask, chars, method=wish.method)
        return replace(record, score=score, model=wish.name)

    # ----------------------------------------------------------------------------------------------------- evaluation
    def evaluate(self, model: nn.Module, *, alignments: bool = False) -> Scores:
        """Exact match and F1 as SQuAD's scripts compute them; by kind of question."""
        test = question_source(self.recipe.data, "test")
        if test is None:
            raise CallError("the recipe has no test data: give data.test=FILE")
        return answer_scores.evaluate(test, self.recipe, lambda asks: self._find(model, asks), self._said)

    @property
    def tokenizer(self) -> Tokenizer:
        assert self._tokenizer is not None, "prepare or restore comes first"
        return self._tokenizer

    @property
    def texts(self) -> Texts:
        return Texts(self.tokenizer, self.recipe.data)

    @property
    def data(self) -> PreparedQuestions:
        assert self._prepared is not None, "prepare comes first"
        return self._prepared


def _questions(split: QuestionSplit, most: int) -> list[Question]:
    return list(islice((item for item in split.read() if not isinstance(item, Bad)), most))
