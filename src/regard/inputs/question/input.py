"""Two texts as input: a question and the document that answers it. A long document is read in windows."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from torch import nn

from regard.data.batches import pad_rows
from regard.data.check import DataCheck
from regard.data.check_report import CheckReport, Severity
from regard.data.examples import Example, Examples
from regard.data.pairs import ReadReport, SkippedLine
from regard.data.prepare import PrepareCache, Split, find_test
from regard.data.tables import Role
from regard.data.vocabulary import Targets, Vocabulary
from regard.errors import RegardError
from regard.inputs.question.files import QuestionRow, QuestionSource
from regard.inputs.question.store import QuestionExamples, QuestionStore, write_questions
from regard.inputs.question.windows import FRAME, QuestionReader, WindowItem
from regard.inputs.tokenized import TokenizedInput
from regard.layers.embedding import Embedding
from regard.models.reader import TextPair
from regard.settings.model import EncoderSettings, PretrainedSettings

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
    """Questions and documents from files: token ids on disk, and the data check."""

    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        """Learn the vocabulary. Answers are spans of the documents, so `targets` need none."""
        steps, sources = PrepareCache.of(self.data, cache, strict=strict), QuestionSource.by_role(self.data)
        splits, how = steps.splits(sources), self.data.tokenizer
        train = splits["train"]

        pairs = steps.count(sources["train"]).pairs
        every = -(-pairs // how.learn_from)

        def texts() -> Iterator[str]:
            """Yield questions and documents; if there are very many, an even sample of them."""
            before = None
            for item in islice(train.good(), 0, None, every):
                yield item.question
                if item.document != before:  # once for consecutive questions on a document
                    yield item.document
                before = item.document

        self.learn_once(steps, train.depends_on(), texts, 2 * pairs // every)
        return {role: self._examples(steps, role, split) for role, split in splits.items()}

    def _examples(self, steps: PrepareCache, role: Role, split: Split[QuestionRow]) -> QuestionExamples:
        data, tokenizer = self.data, self.tokenizer

        def write(folder: Path, name: str, items: Iterable[QuestionRow | SkippedLine]) -> None:
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
        split: Split[QuestionRow] = find_test(QuestionSource.by_role(self.data), self.data.test_share)
        source: Any = split.source
        items, read = dict[tuple[str, ...], QuestionRow](), ReadReport()
        for item in read.only_pairs(split.read()):
            key = (str(item.line),) if source.lists_answers else (item.question, item.document)
            known = items.get(key)
            items[key] = item if known is None else known._replace(answers=(*known.answers, *item.answers))
        if not items:
            raise RegardError(f"data.test={split}: it contains no question")
        note = f"{read.bad} of {source.where} that cannot be used (see regard check)" if read.bad else ""
        return [item.example for item in items.values()], note


class QuestionInput(QuestionData):
    kind: ClassVar[str] = "text"  # one field of the service: the question is the first line, the document the rest

    def collate(self, items: Sequence[WindowItem]) -> TextPair:
        """Return a batch; an empty text is padding only."""
        sides = ([item.question for item in items], [item.document for item in items])
        return TextPair(*(pad_rows([np.array(ids or [self.pad]) for ids in side], self.pad) for side in sides))

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        """Build a Transformer that reads both texts as one, or word vectors if the layers above
        read one text at a time.
        """
        if self.marked:
            return super().encoder(decoder)
        return Embedding(self.tokenizer.size, self.settings.embedding, dropout=self.settings.dropout, pad=self.pad)

    @property
    def marked(self) -> bool:
        return isinstance(self.settings, EncoderSettings | PretrainedSettings)

    # ---------------------------------------------------------------------------------------------------- explanations
    def without(self, item: WindowItem, parts: Collection[int]) -> WindowItem:
        asked = len(item.question)
        question = [index for place, index in enumerate(item.question) if place not in parts]
        document = [index for place, index in enumerate(item.document, asked) if place not in parts]
        return item._replace(question=question, document=document)

    def gather(self, item: WindowItem, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        """Sum gradients of one call for both texts, or of one call for each."""
        return np.concatenate([product.sum(-1) for product in products], axis=1)[:, self.parts(item)]
