"""Questions and documents as token ids on disk (`data/store.py`). A document that several questions are about is kept
once:

    document   question            their ids; all documents, and all questions in the order of the file
    about                          for each question: its document, first and last token of its answer (-1: none)
    hashes                         of the question with its document, and of its answers
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.counts import Counts, unknown_in
from regard.data.pairs import Bad
from regard.data.store import HASHES, LINES, Array, Store, StoreWriter, ids_array, text_hash
from regard.data.tokenizer import Tokenizer
from regard.inputs.question.files import Question

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


class QuestionStore(Store):
    """The questions of a folder that `write_questions` made."""

    @property
    def answers(self) -> NDArray[np.int64]:
        """For each question: its document, and the first and last token of its answer in it."""
        return self["about"]

    def document(self, row: int) -> NDArray[Any]:
        """The ids of the document that question `row` is about."""
        return self.row("document", int(self.answers[row, 0]))

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Tokens of every question, and of the document of every question."""
        return self.row_lengths("question"), self.row_lengths("document")[self.answers[:, 0]]


def write_questions(
    folder: Path, items: Iterable[Question | Bad], tokenizer: Tokenizer, *, name: str, max_question: int
) -> None:
    """Tokenize all questions into `folder`, which must exist. Of the documents only hashes stay in memory."""
    known = dict[int, int]()  # hash of a document → its number
    ids, unknown = ids_array(tokenizer.size), tokenizer.specials.unk
    with StoreWriter(
        folder, name, document=ids, question=ids, about=Array("int64", (3,)), hashes=HASHES, lines=LINES
    ) as store:
        counts = store.counts
        for item in counts.read.only_pairs(items):
            document = encode_document(tokenizer, item.document)
            key = text_hash(item.document)
            if key not in known:
                known[key] = len(known)
                store.add("document", [document.ids])
                counts.sides[1].add(len(document), unknown_in(document.ids.tolist(), unknown))
            answer = _answer(item, document, counts)
            if answer is None:
                continue
            question = tokenizer.encode(item.question)
            counts.sides[0].add(len(question), unknown_in(question, unknown))
            if len(question) > max_question:
                counts.note("cut", item.line)
            store.add("question", [question[:max_question]])
            store.add("about", [(known[key], *answer)])
            asked = text_hash(f"{item.question} {item.document}")
            store.add("hashes", [(asked, text_hash(str(item.answers)))])
            store.add("lines", [item.line])


def _answer(item: Question, document: Encoded, counts: Counts) -> tuple[int, int] | None:
    """The tokens of the first answer: that one is learned. None where the tokenizer finds nothing to read."""
    if not item.answers and len(document):
        counts.note("unanswered", item.line)
        return NONE, NONE
    start, end = item.answers[0] if item.answers else (0, 0)
    tokens = document.tokens_of(start, end)
    if tokens is None:
        counts.note("lost", item.line)
        return None
    if len(set(item.texts)) > 1:
        counts.note("several", item.line)
    if item.placed in ("moved", "first"):
        counts.note(item.placed, item.line)
    if (document.chars[tokens[0], 0], document.chars[tokens[1], 1]) != (start, end):
        counts.note("loose", item.line)
    return tokens
