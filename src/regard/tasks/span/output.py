"""Span output: two pointers mark the start and end of the answer to a question in a document.

question, document → windows → reader → two pointers → the best valid spans of all windows → text
"""

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example, Examples
from regard.errors import CallError
from regard.inputs.base import Vocabulary
from regard.inputs.question.input import QuestionInput
from regard.inputs.question.windows import QuestionContext, WindowItem
from regard.look.case import ExplainTarget, Parts
from regard.look.hooks import in_passes
from regard.metrics.classes import AnswerScore, answer_score, best_threshold, mean_score
from regard.models.build import build_score
from regard.models.reader import PairReader, RecurrentReader, SpanReader
from regard.tasks.base import Output, OutputRef
from regard.tasks.batched import device_of
from regard.tasks.final_score import ROWS
from regard.tasks.result import LookOptions, Measure, Prediction, Scores, Tally
from regard.tasks.span.reading import SpanCandidate, WindowReader, axes_of, shown_window, text_boundary
from regard.tasks.span.settings import AnswerRecipe, PretrainedSpanReaderSettings, RecurrentSpanReaderSettings

# Attention of a reader: the words of the document that those of the question attend to.
#
#     transformer    for every layer and head, the rows of the question and the columns of the document (`cross`), and
#     the
#                    whole table (`encoder`). The rest of the weight is on the question and the special tokens.
#     recurrent      layer 0: document words attend to question words, transposed, so that columns sum to one;
#                    layer 1: question words attend to document words (see `models/reader.py`)
#
# A long document is shown by the window in which the answer has the most context on both sides. The answer is in
# brackets ⟦ ⟧. input-gradient and leave-one-out attribute log p(start) + log p(end) of the answer to both texts; the
# answer is then the only row, and its words cannot be occluded.


def reader_case(model: SpanReader, input: QuestionInput, one: Any, ref: OutputRef) -> ExplainTarget:
    """Return the case. `told.target`: the characters of the answer; None if there is none."""
    shown = shown_window(input, one, ref.target)
    (item, first, last), device = shown, device_of(model)
    asked = len(item.question)
    own = frozenset(range(asked + first - 1, asked + last)) if first else frozenset()  # parts that are never occluded

    def ask(without: Sequence[Parts]) -> Tensor:
        return in_passes(without, input.length(item), _point)

    def _point(without: Sequence[Parts]) -> Tensor:
        pair = input.collate([input.without(item, parts - own) for parts in without]).to(device)
        before = [sum(asked <= part < asked + first - 1 for part in parts) for parts in without]
        places = torch.tensor([[[first - less, last - less]] for less in before], device=device)  # N 1 2
        pointers = torch.stack(model.point(pair.question, pair.document), dim=2).float().log_softmax(1)
        return pointers.gather(1, places).sum(2)

    return ExplainTarget(
        model, ask, axes_of(input, shown, ref.text), input.parts(item), vectors=input.vectors(model),
        gather=lambda products: input.gather(item, products), place=text_boundary(*input.sides(item)), by_step=False,
    )  # fmt: skip


# Exact match and F1 of answers, of all questions and by kind.

WORD, AROUND = re.compile(r"\w+"), 5  # words on each side for a simple baseline
WORDS = ("what", "who", "whose", "when", "where", "which", "why", "how")


def answer_scores(hypotheses: Sequence[str], examples: Sequence[Example], no_answer: bool) -> AnswerScore:
    """Return the mean score, in percent."""
    return mean_score(_each(hypotheses, examples, no_answer))


def scores_of(
    hypotheses: Sequence[str], found: Sequence[SpanCandidate], examples: Sequence[Example], no_answer: bool
) -> Scores:
    """Return the scores. With `no_answer`, also those of questions with and without an answer, and by the best
    threshold.
    """
    scores = _each(hypotheses, examples, no_answer)
    whole = mean_score(scores)
    values = {"exact_match": whole.exact, "f1": whole.f1, "questions": float(len(examples))}
    if no_answer:
        has = [any(example.texts) for example in examples]
        for name, wanted in (("has_answer", True), ("no_answer", False)):
            part = [one for one, has_one in zip(scores, has, strict=True) if has_one == wanted]
            if part:
                mean = mean_score(part)
                values |= {f"{name}_exact_match": mean.exact, f"{name}_f1": mean.f1, f"{name}_questions": len(part)}
        spoken = [one.text(one.chars(one.spans[0])) if one.spans else "" for one in found]
        f1 = [one.f1 for one in _each(spoken, examples, no_answer)]
        best = best_threshold([one.odds for one in found], f1, [float(not has_one) for has_one in has])
        values |= {"best_f1": best.f1, "best_threshold": best.value}
    percent = [name for name in values if name.endswith(("exact_match", "f1"))]
    return Scores(values, details={"by first word": _by_word(examples, scores)}, percent=percent)


def _each(hypotheses: Sequence[str], examples: Sequence[Example], no_answer: bool) -> list[AnswerScore]:
    pairs = zip(hypotheses, examples, strict=True)
    return [answer_score(text, example.texts, no_answer=no_answer) for text, example in pairs]


def f1_tally(hypotheses: Sequence[str], examples: Sequence[Example], no_answer: bool) -> Tally:
    return Tally.of_shares([(one.f1, 1) for one in _each(hypotheses, examples, no_answer)], percent=True)


def simple_answers(train: Examples, examples: Sequence[Example], no_answer: bool) -> dict[str, list[str]]:
    """Return baselines: words of the document near words of the question; no answer, if that is allowed."""
    lengths = [len(one.texts[0].split()) for one in train.sample(ROWS) if one.texts[0]]
    size = int(np.median(lengths)) if lengths else 1
    found = {"words near those of the question": [nearby_words(one.input, size) for one in examples]}
    return found | ({"no answer": [""] * len(examples)} if no_answer else {})


def nearby_words(question: QuestionContext, size: int) -> str:
    """Return the `size` words with the most words of the question beside them and none among them: a simple baseline
    after the sliding window of Richardson et al. 2013 (MCTest). A word counts less if it is frequent in the document.
    """
    places = list(WORD.finditer(question.document))
    words = [place[0].lower() for place in places]
    sought, counts = {word.lower() for word in WORD.findall(question.question)}, Counter(words)
    weights = [1 / counts[word] if word in sought else 0.0 for word in words]
    sums = [0.0, *accumulate(weights)]
    last = max(0, len(words) - size)

    def value(start: int) -> float:
        around = sums[min(len(words), start + size + AROUND)] - sums[max(0, start - AROUND)]
        inside = sums[min(len(words), start + size)] - sums[start]
        return around - 2 * inside

    if not places:
        return ""
    best = max(range(last + 1), key=value)
    return question.document[places[best].start() : places[min(len(places), best + size) - 1].end()]


def _by_word(examples: Sequence[Example], scores: Sequence[AnswerScore]) -> list[dict[str, str | int | float]]:
    """Return scores by question word: what, who, when."""
    groups: dict[str, list[AnswerScore]] = {}
    for example, one in zip(examples, scores, strict=True):
        words = [word.strip("?,.").lower() for word in example.input.question.split()]
        groups.setdefault(next((word for word in words if word in WORDS), "other"), []).append(one)
    rows: list[dict[str, str | int | float]] = []
    for word, part in sorted(groups.items(), key=lambda group: -len(group[1])):
        mean = mean_score(part)
        rows.append({"asks": word, "questions": len(part), "exact_match": mean.exact, "f1": mean.f1})
    return rows


QUESTIONS = 500  # validation questions answered during training


class SpanOutput(Output[AnswerRecipe, QuestionInput, SpanReader]):
    gives: ClassVar[str] = "a position in the text"
    unit: ClassVar[str] = "windows"

    @property
    def vocabulary(self) -> Vocabulary:
        """Raise: answers are spans of the documents and have no vocabulary."""
        return self.input.tokenizer

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        return torch.from_numpy(np.stack(targets) if len(targets) else np.full((1, 2), -1))

    # ------------------------------------------------------------------------------------------------------- training
    def build(self) -> SpanReader:
        encoder: Any = self.input.encoder()  # word vectors or a Transformer, by the settings
        s, pad = self.recipe.model, self.input.pad
        if isinstance(s, RecurrentSpanReaderSettings):
            return RecurrentReader(
                encoder, s.width, score=partial(build_score, s.score, s.width, s.width, s.width),
                to_document=s.to_document, cell=s.cell, depth=s.layers, reading_depth=s.reading_layers,
                match=s.match, dropout=s.dropout, pad=pad,
            )  # fmt: skip
        specials, sizes = self.input.tokenizer.specials, self.input.sizes
        if specials.start is None or specials.end is None:
            raise CallError("this vocabulary has no start and end tokens, which a pair of texts needs")
        if isinstance(s, PretrainedSpanReaderSettings) and s.frozen:
            encoder.freeze(s.frozen)
        return PairReader(
            encoder, sizes.width, cls=specials.start, sep=specials.end, pad=pad, types=sizes.token_types > 1,
            dropout=sizes.dropout,
        )  # fmt: skip

    def quick(self, model: SpanReader, valid: Examples) -> dict[str, float]:
        """Return exact match and F1 of some questions, evenly spread over all."""
        examples = valid.examples(QUESTIONS)
        said = [found.text for found in self.predict(model, [example.input for example in examples])]
        exact, f1 = answer_scores(said, examples, self.recipe.data.no_answer)
        return {"exact_match": exact, "f1": f1}

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: SpanReader, inputs: Sequence[Any]) -> list[Prediction]:
        asking = self._span_reader(model)
        return [asking.prediction(*one) for one in zip(inputs, asking.answers(inputs), strict=True)]

    def score(self, model: SpanReader, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Prediction]:
        """Return log p of given answers: each at its best position in the document."""
        asking = self._span_reader(model)
        given = zip(inputs, asking.given(inputs, outputs), strict=True)
        return [asking.prediction(one, [answer]) for one, answer in given]

    def _span_reader(self, model: SpanReader) -> WindowReader:
        device = device_of(model)

        @torch.inference_mode()
        def point(items: Sequence[WindowItem]) -> tuple[NDArray[Any], NDArray[Any]]:
            pair = self.input.collate(items).to(device)
            start, end = model.point(pair.question, pair.document)
            return start.float().cpu().numpy(), end.float().cpu().numpy()

        return WindowReader(point, self.input, self.recipe)

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: SpanReader, one: Any, options: LookOptions) -> list[OutputRef]:
        answers, document = self._span_reader(model).looked_at(one, options.output), self.input.document(one).text
        return [OutputRef(answer.span, answer.text, answer.score, answer.marked(document)) for answer in answers]

    def case(self, model: SpanReader, one: Any, ref: OutputRef) -> ExplainTarget:
        return reader_case(model, self.input, one, ref)

    # ------------------------------------------------------------------------------------------------------ evaluation
    def measure(self) -> Measure:
        return Measure("f1")

    def baselines(self, train: Examples, examples: Sequence[Example]) -> dict[str, list[str]]:
        return simple_answers(train, examples, self.recipe.data.no_answer)

    def tally(self, answers: Sequence[str], examples: Sequence[Example]) -> Tally:
        return f1_tally(answers, examples, self.recipe.data.no_answer)

    def test_scores(self, model: SpanReader, examples: Sequence[Example], alignments: bool) -> Scores:
        """Return exact match and F1 as SQuAD's scripts compute them, also by kind of question."""
        asking = self._span_reader(model)
        found = asking.found([example.input for example in examples])
        said = [answers[0].text for answers in asking.best(found)]
        return scores_of(said, found, examples, self.recipe.data.no_answer)
