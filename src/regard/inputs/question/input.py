"""Two texts come in: a question, and the document that answers it. A long document is read window by window."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from torch import nn

from regard.data.batches import padded
from regard.data.check import DataCheck
from regard.data.check_report import CheckReport, Severity
from regard.data.examples import Example, Examples
from regard.data.pairs import Bad
from regard.data.prepare import Steps
from regard.data.read_report import ReadReport
from regard.data.splits import Split
from regard.data.tables import Role
from regard.data.vocabulary import Targets, Vocabulary
from regard.errors import CallError, RegardError
from regard.files.text import read_text
from regard.inputs.question.examples import QuestionExamples, windows
from regard.inputs.question.files import Asked, Question
from regard.inputs.question.settings import FRAME
from regard.inputs.question.source import QuestionSource
from regard.inputs.question.store import Encoded, QuestionStore, encode_document, write_questions
from regard.inputs.tokenized import TokenizedInput
from regard.layers.embedding import Embedding
from regard.look.axis import Axis, Token
from regard.models.reader import TextPair
from regard.settings.encoder import EncoderSettings, PretrainedSettings

ADVICE = {
    "columns": "look for missing or extra separators, or set data.question, data.document, data.answer; skipped",
    "not found": "an answer must stand in its document letter by letter; they are skipped",
}
ODD: dict[str, tuple[Severity, str, str]] = {
    "moved": ("warning", "with an answer that is not where the file says", "the nearest place with that text is taken"),
    "first": ("note", "with an answer that stands in the document several times", "the first is taken; data.start"),
    "loose": ("note", "with an answer that begins or ends inside a token", "the whole tokens are learned"),
    "lost": ("warning", "with an answer in which the tokenizer finds nothing to read", "they are skipped"),
    "cut": ("note", "longer than data.max_question", "they are cut"),
    "several": ("note", "with several right answers", "the first is learned; any of them counts as right in scores"),
    "unanswered": ("note", "without an answer", "the model learns to say so"),
}


class WindowItem(NamedTuple):
    """Both texts; the ids of the question, and of a window of the document, from token `start` of it on."""

    asked: Asked
    question: list[int]
    document: list[int]
    start: int


class QuestionInput(TokenizedInput):
    kind: ClassVar[str] = "text"  # one field of the service: the question is the first line, the document the rest

    # ------------------------------------------------------------------------------------------------------- the files
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        """Answers are spans of the documents: there is no vocabulary of `targets` to learn."""
        steps, sources = Steps.of(self.data, cache, strict=strict), QuestionSource.by_role(self.data)
        splits, how = steps.splits(sources), self.data.tokenizer
        train = splits["train"]

        def texts() -> Iterator[str]:
            """Questions and their documents, and an even choice of them if there are very many."""
            every, before = -(-steps.count(sources["train"]).pairs // how.learn_from), None
            for item in islice(train.good(), 0, None, every):
                yield item.question
                if item.document != before:  # once for all questions that follow each other
                    yield item.document
                before = item.document

        self.learn_once(steps, train.depends_on(), texts)
        return {role: self._examples(steps, role, split) for role, split in splits.items()}

    def _examples(self, steps: Steps, role: Role, split: Split[Question]) -> QuestionExamples:
        data, tokenizer = self.data, self.tokenizer

        def write(folder: Path, items: Iterable[Question | Bad]) -> None:
            write_questions(folder, items, tokenizer, name=str(split), max_question=data.max_question)

        store = steps.store(QuestionStore, role, split, [tokenizer.to_json(), data.max_question], write)
        return QuestionExamples(store, split, max_length=data.max_length, overlap=data.overlap, pad=self.pad)

    def check(self, splits: dict[Role, Examples], vocabulary: Vocabulary) -> CheckReport:
        examples: dict[Role, QuestionExamples] = {
            role: one for role, one in splits.items() if isinstance(one, QuestionExamples)
        }
        stores: dict[Role, QuestionStore] = {role: one.store for role, one in examples.items()}
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
        train = examples["train"]
        estimates = {"windows in an epoch": f"{len(train):,} of {len(train.store):,} questions"}
        return found.report({"both": vocabulary.size}, estimates)

    def test(self) -> tuple[list[Example], str]:
        """In a table, lines that ask the same are one question with several right answers."""
        source = QuestionSource.by_role(self.data).get("test")
        if source is None:
            raise self.no_test_data()
        items, read = dict[tuple[str, ...], Question](), ReadReport()
        for item in read.only_pairs(source.read()):
            key = (str(item.line),) if source.lists_answers else (item.question, item.document)
            known = items.get(key)
            items[key] = item if known is None else known._replace(answers=(*known.answers, *item.answers))
        if not items:
            raise RegardError(f"data.test={source.where}: there is not one question in it")
        note = f"{read.bad} of {source.where} that cannot be used (see regard check)" if read.bad else ""
        return [item.example for item in items.values()], note

    # ------------------------------------------------------------------------------------------------------- one's own
    def parse(self, words: Sequence[str]) -> list[Asked]:
        return [self.asked(word) for word in words]

    def subject(self, file: str) -> str:
        return read_text(file)

    def about(self, words: Sequence[str], subject: str) -> list[Asked]:
        return [Asked(question, subject) for question in words]

    def asked(self, one: Any) -> Asked:
        """Of a pair, a mapping of both, or a text with a tab or a line end between."""
        if isinstance(one, str):
            question, apart, document = one.partition("\t" if "\t" in one else "\n")
            found = (question, document) if apart else ()
        elif isinstance(one, Mapping):
            found = tuple(one[name] for name in Asked._fields) if set(one) == set(Asked._fields) else ()
        else:
            found = tuple(one) if isinstance(one, tuple | list) else ()
        if len(found) != 2 or not all(isinstance(text, str) for text in found):
            raise CallError(
                f"{one!r} is not a question and a document: give question<TAB>document (on the command line also "
                '"question" --about FILE), or in Python {"question": ..., "document": ...}'
            )
        return Asked(*found)

    def word(self, one: Any) -> str:
        return "\n".join(self.asked(one))

    def name(self, one: Any) -> str:
        return self.asked(one).question

    def document(self, one: Any) -> Encoded:
        """The whole document."""
        return encode_document(self.tokenizer, self.asked(one).document)

    def read(self, one: Any) -> WindowItem:
        """The first window."""
        return next(self.in_windows(one))

    def in_windows(self, one: Any) -> Iterator[WindowItem]:
        """Every window of the document, with the question."""
        asked, ids = self.asked(one), self.document(one).ids.tolist()
        question = self.tokenizer.encode(asked.question)[: self.data.max_question]
        for start, stop in windows(len(ids), self.data.max_length - FRAME - len(question), self.data.overlap):
            yield WindowItem(asked, question, ids[start:stop], start)

    def length(self, item: WindowItem) -> int:
        asked, read = len(item.question), len(item.document)
        return asked + read + FRAME if asked and read else 0

    def collate(self, items: Sequence[WindowItem]) -> TextPair:
        """A text of which nothing is left is padding only."""
        sides = ([item.question for item in items], [item.document for item in items])
        return TextPair(*(padded([np.array(ids or [self.pad]) for ids in side], self.pad) for side in sides))

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        """A Transformer that reads both texts as one; or word vectors, if what is above them reads one text at a
        time."""
        if self.marked:
            return super().encoder(decoder)
        return Embedding(self.tokenizer.size, self.settings.embedding, dropout=self.settings.dropout, pad=self.pad)

    @property
    def marked(self) -> bool:
        """Whether the two are read as one text: <s> question </s> document </s>."""
        return isinstance(self.settings, EncoderSettings | PretrainedSettings)

    # --------------------------------------------------------------------------------------------------------- looking
    def axis(self, item: WindowItem) -> Axis:
        """Both texts, one after the other, with their marks."""
        asked = self.tokens(item.asked.question, item.question)
        shift, words = len(item.asked.question) + 1, 1 + max((token.word or 0 for token in asked), default=0)
        read = [
            replace(token, span=(token.span[0] + shift, token.span[1] + shift), word=(token.word or 0) + words)
            for token in self.tokens(item.asked.document, item.document, item.start)
            if token.span is not None
        ]
        tokens, text = [*asked, *read], " ".join(item.asked)
        if self.marked:
            specials = self.tokenizer.specials
            cls, sep = (Token(specials.names[index], special=True) for index in (specials.start, specials.end))
            tokens = [cls, *asked, sep, *read, sep]
        return Axis(tuple(tokens), text)

    def sides(self, item: WindowItem) -> tuple[slice, slice]:
        """Where the question and the document stand on the axis."""
        mark, asked = int(self.marked), len(item.question)
        first = mark + asked + mark
        return slice(mark, mark + asked), slice(first, first + len(item.document))

    def without(self, item: WindowItem, parts: Collection[int]) -> WindowItem:
        asked = len(item.question)
        question = [index for place, index in enumerate(item.question) if place not in parts]
        document = [index for place, index in enumerate(item.document, asked) if place not in parts]
        return item._replace(question=question, document=document)

    def gather(self, item: WindowItem, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        """Of one call for both texts, or of one for each."""
        return np.concatenate([product.sum(-1) for product in products], axis=1)[:, self.parts(item)]
