"""Questions and documents as token ids on disk (`data/store.py`). A document with several
questions is stored once.

    document   question            their ids; all documents, and all questions in the order of the file
    about                          for each question: its document, first and last token of its answer (-1: none)
    hashes                         of the question with its document, and of its answers

As examples, a long document is read in overlapping windows (`windows.py`), and each window is a separate row. A window
that does not contain the whole answer has the target *no answer*.

Targets are the first and the last token of the answer, counted from 1; 0 is *no answer*.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.batches import pad_rows
from regard.data.examples import Example, Examples
from regard.data.labels import Spread, evenly
from regard.data.pairs import ReadCounts, SkippedLine, unknown_in
from regard.data.prepare import Split
from regard.data.store import HASHES, LINES, Array, Store, StoreWriter, ids_array, text_hash
from regard.data.tokenizer import Tokenizer
from regard.data.windows import windows
from regard.inputs.question.files import QuestionRow
from regard.inputs.question.windows import FRAME, Encoded, encode_document
from regard.models.reader import TextPair

NONE = -1
SHOWN = 2000  # questions of a split that are kept as texts


class QuestionStore(Store):
    """Questions of a folder that `write_questions` made."""

    @property
    def answers(self) -> NDArray[np.int64]:
        """For each question: its document, and the first and last token of its answer."""
        return self["about"]

    def document(self, row: int) -> NDArray[Any]:
        """Return the ids of the document of question `row`."""
        return self.row("document", int(self.answers[row, 0]))

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the number of tokens of every question and of its document."""
        return self.row_lengths("question"), self.row_lengths("document")[self.answers[:, 0]]


def write_questions(
    folder: Path, items: Iterable[QuestionRow | SkippedLine], tokenizer: Tokenizer, *, name: str, max_question: int
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


def _answer(item: QuestionRow, document: Encoded, counts: ReadCounts) -> tuple[int, int] | None:
    """Return the token span of the first answer, which is learned; None if it has no token."""
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


class QuestionExamples(Examples):
    def __init__(
        self, store: QuestionStore, split: Split[QuestionRow], *, max_length: int, overlap: int, pad: int = 0
    ) -> None:
        self.store, self._split, self._pad = store, split, pad
        self.name, self.counts = store.name, store.counts.read
        questions, documents = store.lengths()
        rows = np.flatnonzero(documents > 0).tolist()
        self._windows = np.array(
            [
                (row, *window)
                for row in rows
                for window in windows(int(documents[row]), max_length - FRAME - int(questions[row]), overlap)
            ],
            np.int64,
        ).reshape(-1, 3)

    def __len__(self) -> int:
        return len(self._windows)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        row, start, stop = self._windows.T
        return (self.store.lengths()[0][row] + FRAME).astype(np.int32), (stop - start).astype(np.int32)

    def source(self, rows: NDArray[np.int64], epoch: int) -> TextPair:
        found = self._windows[rows].tolist()
        questions = [self.store.row("question", row) for row, _, _ in found]
        documents = [self.store.document(row)[start:stop] for row, start, stop in found]
        return TextPair(pad_rows(questions, self._pad), pad_rows(documents, self._pad))

    def target(self, row: int) -> NDArray[np.int64]:
        number, start, stop = self._windows[row].tolist()
        first, last = self.store.answers[number, 1:].tolist()
        inside = first != NONE and start <= first and last < stop
        return np.array([first - start + 1, last - start + 1] if inside else [0, 0], np.int64)

    def digest(self) -> str:
        return self.store.digest()

    def examples(self, most: int) -> list[Example]:
        """Choose questions spread over the split, ordered by document length, so that the middle
        ones have medium length.
        """
        items = evenly(self._shown, most)
        return [item.example for item in sorted(items, key=lambda item: len(item.document))]

    @cached_property
    def _shown(self) -> list[QuestionRow]:
        return Spread.of(self._split.good(), SHOWN)

    def sample(self, most: int) -> list[Example]:
        split = replace(self._split, sample=min(1.0, most / max(1, len(self.store))))
        return [item.example for item in split.good()]
