"""Stored questions as examples: a long document is read in overlapping windows, and each window is a row of its own.

    window w of a document of n tokens:  w·(size − overlap) ≤ t < w·(size − overlap) + size,   until one reaches n

so that whatever is no longer than the overlap stands whole in at least one window. Devlin et al. 2018, whose code cuts
SQuAD's documents so (`doc_stride` there is size − overlap). A window that does not hold the whole answer has the target
*no answer*: it says that the answer is elsewhere.

Targets are the first and the last token of the answer, counted from 1; 0 is *no answer*.
"""

from itertools import islice

import numpy as np
from numpy.typing import NDArray

from regard.data.batches import padded
from regard.data.examples import Example, Examples
from regard.data.splits import Split
from regard.inputs.question.files import Question
from regard.inputs.question.settings import FRAME
from regard.inputs.question.store import NONE, QuestionStore
from regard.models.reader import TextPair


def windows(tokens: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """First token and end of each window; a document that fits has one."""
    found = [(0, min(size, tokens))]
    while found[-1][1] < tokens:
        start = found[-1][0] + size - overlap
        found.append((start, min(start + size, tokens)))
    return found


class QuestionExamples(Examples):
    def __init__(
        self, store: QuestionStore, split: Split[Question], *, max_length: int, overlap: int, pad: int = 0
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
        return TextPair(padded(questions, self._pad), padded(documents, self._pad))

    def target(self, row: int) -> NDArray[np.int64]:
        number, start, stop = self._windows[row].tolist()
        first, last = self.store.answers[number, 1:].tolist()
        inside = first != NONE and start <= first and last < stop
        return np.array([first - start + 1, last - start + 1] if inside else [0, 0], np.int64)

    def digest(self) -> str:
        return self.store.digest()

    def examples(self, most: int) -> list[Example]:
        """By the length of their documents, so that those in the middle are of middling length."""
        items = islice(self._split.good(), most)
        return [item.example for item in sorted(items, key=lambda item: len(item.document))]
