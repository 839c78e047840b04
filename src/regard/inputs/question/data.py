"""Questions and documents from files: token ids on disk, and the data check."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.check import DataCheck
from regard.data.check_report import CheckReport, Severity
from regard.data.counts import ReadReport
from regard.data.examples import Example, Examples
from regard.data.pairs import Bad
from regard.data.prepare import Steps
from regard.data.splits import Split, find_test
from regard.data.tables import Role
from regard.data.vocabulary import Targets, Vocabulary
from regard.errors import RegardError
from regard.inputs.question.files import Question, QuestionSource
from regard.inputs.question.settings import FRAME
from regard.inputs.question.store import QuestionExamples, QuestionStore, write_questions
from regard.inputs.question.windows import QuestionReader
from regard.inputs.tokenized import TokenizedInput

ADVICE = {
    "columns": "check for missing or extra separators, or set data.question, data.document, data.answer; skipped",
    "not found": "an answer must occur literally in its document; they are skipped",
}

ODD: dict[str, tuple[Severity, str, str]] = {
    "moved": ("warning", "with an answer at another place than the file gives", "the nearest occurrence is used"),
    "first": ("note", "with an answer that occurs several times in the document", "the first is used; set data.start"),
    "loose": ("note", "with an answer that starts or ends inside a token", "the whole tokens are learned"),
    "lost": ("warning", "with an answer that is empty after tokenization", "they are skipped"),
    "cut": ("note", "longer than data.max_question", "they are cut"),
    "several": ("note", "with several correct answers", "the first is learned; scores accept any of them"),
    "unanswered": ("note", "without an answer", "the model learns to predict no answer"),
}


class QuestionData(QuestionReader, TokenizedInput):  # pyright: ignore[reportIncompatibleVariableOverride]
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        """Learn the vocabulary. Answers are spans of the documents, so `targets` need none."""
        steps, sources = Steps.of(self.data, cache, strict=strict), QuestionSource.by_role(self.data)
        splits, how = steps.splits(sources), self.data.tokenizer
        train = splits["train"]

        def texts() -> Iterator[str]:
            """Yield questions and documents; if there are very many, an even sample of them."""
            every, before = -(-steps.count(sources["train"]).pairs // how.learn_from), None
            for item in islice(train.good(), 0, None, every):
                yield item.question
                if item.document != before:  # once for consecutive questions on a document
                    yield item.document
                before = item.document

        self.learn_once(steps, train.depends_on(), texts)
        return {role: self._examples(steps, role, split) for role, split in splits.items()}

    def _examples(self, steps: Steps, role: Role, split: Split[Question]) -> QuestionExamples:
        data, tokenizer = self.data, self.tokenizer

        def write(folder: Path, name: str, items: Iterable[Question | Bad]) -> None:
            write_questions(folder, items, tokenizer, name=name, max_question=data.max_question)

        store = steps.store(QuestionStore, role, split, [tokenizer.to_json(), data.max_question], write)
        return QuestionExamples(store, split, max_length=data.max_length, overlap=data.overlap, pad=self.pad)

    def check(self, splits: dict[Role, Any], vocabulary: Vocabulary) -> CheckReport:
        stores: dict[Role, QuestionStore] = {role: one.store for role, one in splits.items()}
        found = DataCheck(
            stores, noun="question", sides=("question", "document"), hashed=("question", "answer"),
            max_bad=self.data.max_bad, advice=ADVICE,
        )  # fmt: skip
        found.odd(ODD)
        for side in (0, 1):
            found.unknown(side, self.unknown_advice(vocabulary.size))
        for role, store in stores.items():
            questions, documents = store.lengths()
            long = np.flatnonzero(documents + questions + FRAME > self.data.max_length)
            most = int(documents.max(initial=0)) + self.data.max_question + FRAME
            advice = f"nothing is lost; data.max_length={most} would read each at once"
            found.at("note", role, long, "whose document is read in several windows", advice)
        train = splits["train"]
        estimates = {"windows in an epoch": f"{len(train):,} of {len(train.store):,} questions"}
        return found.report({"both": vocabulary.size}, estimates)

    def test(self) -> tuple[list[Example], str]:
        """Return test questions; in a table, lines with the same question are one question with
        several correct answers.
        """
        split: Split[Question] = find_test(QuestionSource.by_role(self.data), self.data.test_share)
        source: Any = split.source
        items, read = dict[tuple[str, ...], Question](), ReadReport()
        for item in read.only_pairs(split.read()):
            key = (str(item.line),) if source.lists_answers else (item.question, item.document)
            known = items.get(key)
            items[key] = item if known is None else known._replace(answers=(*known.answers, *item.answers))
        if not items:
            raise RegardError(f"data.test={split}: it contains no question")
        note = f"{read.bad} of {source.where} that cannot be used (see regard check)" if read.bad else ""
        return [item.example for item in items.values()], note
