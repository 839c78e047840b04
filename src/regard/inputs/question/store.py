"""Questions and documents as token ids on disk, mapped into memory when they are read.

A store is a folder of plain arrays. A document that several questions are about is kept once:

    document.ids   document.at     all documents one after the other, and where each begins; uint16 (if ids fit), int64
    question.ids   question.at     all questions, in the order of the file
    question.about                 for each: its document, first and last token of its answer (-1: none); int64
    hashes         lines           64 bits of question and of document with answer; the line of each; uint64, int64
    store.json                     what the arrays are, and what was counted on the way; written last
"""

import json
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from regard.data.cache import store_of
from regard.data.pairs import Bad
from regard.data.read_report import FIRST, ReadReport
from regard.data.store_counts import SideCounts
from regard.data.text_hash import text_hash
from regard.data.tokenizer import Tokenizer
from regard.inputs.question.files import Question

VERSION = 2
KINDS = dict.fromkeys(("document.at", "question.at", "question.about", "lines"), "int64") | {"hashes": "uint64"}
NONE = -1


@dataclass(frozen=True)
class Encoded:
    """A document as tokens: their ids, and the characters of the text that each of them stands for."""

    text: str
    ids: NDArray[np.int64]
    chars: NDArray[np.int64]  # tokens × 2

    def __len__(self) -> int:
        return len(self.ids)

    def tokens_of(self, start: int, end: int) -> tuple[int, int] | None:
        """First and last token that have a character of start ≤ i < end; None if no token has."""
        inside = np.flatnonzero((self.chars[:, 0] < end) & (self.chars[:, 1] > start))
        return (int(inside[0]), int(inside[-1])) if len(inside) else None


@lru_cache(maxsize=64)  # questions of a document mostly follow each other
def encode_document(tokenizer: Tokenizer, text: str) -> Encoded:
    spans = tokenizer.spans(text)
    chars = np.array([span[:2] for span in spans], np.int64).reshape(-1, 2)
    return Encoded(text, np.array(tokenizer.encode(text), np.int64), chars)


@dataclass
class Remembered:
    """How often something was met, and the first few lines."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def note(self, line: int) -> None:
        self.count += 1
        if len(self.lines) < FIRST:
            self.lines.append(line)


@dataclass
class QuestionCounts:
    """What was read to make a store: also what is odd, but kept."""

    read: ReadReport = field(default_factory=ReadReport)
    question: SideCounts = field(default_factory=SideCounts)
    document: SideCounts = field(default_factory=SideCounts)
    unanswered: int = 0
    several: int = 0  # questions with more than one right answer
    odd: dict[str, Remembered] = field(default_factory=dict)  # moved, first, loose, lost, cut

    def note(self, kind: str, line: int) -> None:
        self.odd.setdefault(kind, Remembered()).note(line)


COUNTS = TypeAdapter(QuestionCounts)  # to JSON and back


class QuestionStore:
    """The questions of a folder that `write_questions` made. Nothing is read before it is asked for."""

    def __init__(self, folder: Path) -> None:
        about = store_of(folder, VERSION, "token ids")
        self.name: str = about["name"]
        self.counts = COUNTS.validate_python(about["counts"])

        def mapped(name: str) -> NDArray[Any]:
            kind: str = KINDS.get(name) or about["ids"]
            return np.asarray(np.memmap(folder / name, kind, mode="r")) if about["sizes"][name] else np.empty(0, kind)

        self.document_ids, self.document_at = mapped("document.ids"), mapped("document.at")
        self.question_ids, self.question_at = mapped("question.ids"), mapped("question.at")
        self.about = mapped("question.about").reshape(-1, 3)
        self.hashes, self.lines = mapped("hashes").reshape(-1, 2), mapped("lines")

    def __len__(self) -> int:
        return len(self.about)

    def question(self, row: int) -> NDArray[Any]:
        return self.question_ids[self.question_at[row] : self.question_at[row + 1]]

    def document(self, row: int) -> NDArray[Any]:
        """The ids of the document that question `row` is about."""
        number = self.about[row, 0]
        return self.document_ids[self.document_at[number] : self.document_at[number + 1]]

    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens of every question, and of the document of every question."""
        return np.diff(self.question_at), np.diff(self.document_at)[self.about[:, 0]]

    def digest(self) -> str:
        """Tells whether two stores hold the same questions, whatever their files are called."""
        return blake2b(np.ascontiguousarray(self.hashes).tobytes(), digest_size=10).hexdigest()


def write_questions(
    folder: Path, items: Iterable[Question | Bad], tokenizer: Tokenizer, *, name: str, max_question: int
) -> None:
    """Tokenize all questions into `folder`, which must exist. Of the documents only hashes stay in memory."""
    counts, known = QuestionCounts(), dict[int, int]()  # hash of a document → its number
    ids = "uint16" if tokenizer.size <= 1 << 16 else "uint32"
    ends = {"document": 0, "question": 0}
    with ExitStack() as stack:
        files = {
            name: stack.enter_context((folder / name).open("wb")) for name in ("document.ids", "question.ids", *KINDS)
        }

        def write(name: str, values: Any) -> None:
            files[name].write(np.asarray(values, KINDS.get(name, ids)).tobytes())

        for side in ends:
            write(f"{side}.at", [0])
        for item in counts.read.only_pairs(items):
            document = encode_document(tokenizer, item.document)
            key = text_hash(item.document)
            if key not in known:
                known[key] = len(known)
                ends["document"] += len(document)
                write("document.ids", document.ids)
                write("document.at", [ends["document"]])
                _count(counts.document, document.ids, tokenizer)
            answer = _answer(item, document, counts)
            if answer is None:
                continue
            question = tokenizer.encode(item.question)
            _count(counts.question, question, tokenizer)
            if len(question) > max_question:
                counts.note("cut", item.line)
            question = question[:max_question]
            ends["question"] += len(question)
            write("question.ids", question)
            write("question.at", [ends["question"]])
            write("question.about", [known[key], *answer])
            write("hashes", [text_hash(item.question), text_hash(f"{item.answers} {item.document}")])
            write("lines", [item.line])
        sizes = {name: file.tell() for name, file in files.items()}
    about = {"version": VERSION, "name": name, "ids": ids, "sizes": sizes}
    about["counts"] = COUNTS.dump_python(counts, mode="json")
    (folder / "store.json").write_text(json.dumps(about), encoding="utf-8")


def _answer(item: Question, document: Encoded, counts: QuestionCounts) -> tuple[int, int] | None:
    """The tokens of the first answer: that one is learned. None where the tokenizer finds nothing to read."""
    if not item.answers and len(document):
        counts.unanswered += 1
        return NONE, NONE
    start, end = item.answers[0] if item.answers else (0, 0)
    tokens = document.tokens_of(start, end)
    if tokens is None:
        counts.note("lost", item.line)
        return None
    counts.several += len(set(item.texts)) > 1
    if item.placed in ("moved", "first"):
        counts.note(item.placed, item.line)
    if (document.chars[tokens[0], 0], document.chars[tokens[1], 1]) != (start, end):
        counts.note("loose", item.line)
    return tokens


def _count(side: SideCounts, ids: Any, tokenizer: Tokenizer) -> None:
    side.tokens += len(ids)
    side.unknown += int((np.asarray(ids) == tokenizer.specials.unk).sum())
    side.lengths[len(ids)] += 1
