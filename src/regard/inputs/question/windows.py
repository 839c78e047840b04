"""Long documents in overlapping windows, and batches of them.

    window w of a document of n tokens:  w·(size − overlap) ≤ t < w·(size − overlap) + size,   until one reaches n

so that whatever is no longer than the overlap stands whole in at least one window. Devlin et al. 2018, whose code cuts
SQuAD's documents so (`doc_stride` there is size − overlap). A window that does not hold the whole answer has the target
*no answer*: it says that the answer is elsewhere.

Positions of targets count from 1; 0 is *no answer*.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import PlannedBatches, padded
from regard.inputs.question.store import NONE, QuestionStore
from regard.outputs.span.settings import FRAME


def windows(tokens: int, size: int, overlap: int) -> list[tuple[int, int]]:
    """First token and end of each window; a document that fits has one."""
    found = [(0, min(size, tokens))]
    while found[-1][1] < tokens:
        start = found[-1][0] + size - overlap
        found.append((start, min(start + size, tokens)))
    return found


@dataclass(frozen=True)
class ReaderBatch:
    """Padded ids of questions and of windows of documents; where the answers begin and end (from 1; 0: none)."""

    question: Int[Tensor, "B Q"]
    document: Int[Tensor, "B K"]
    start: Int[Tensor, " B"]
    end: Int[Tensor, " B"]

    def to(self, device: torch.device | str) -> "ReaderBatch":
        parts = (part.to(device, non_blocking=True) for part in (self.question, self.document, self.start, self.end))
        return ReaderBatch(*parts)


class WindowBatches(PlannedBatches[ReaderBatch | None]):
    """The batches of all windows of all questions of a store."""

    def __init__(
        self, store: QuestionStore, max_tokens: int, *, max_length: int, overlap: int, pad: int = 0, seed: int = 0
    ) -> None:
        questions, documents = store.lengths()
        sizes = max_length - FRAME - questions
        rows = np.flatnonzero(documents > 0)
        self._windows = np.array(
            [
                (row, *window)
                for row in rows.tolist()
                for window in windows(int(documents[row]), int(sizes[row]), overlap)
            ],
            np.int64,
        ).reshape(-1, 3)
        row, start, stop = self._windows.T
        super().__init__(
            (questions[row] + FRAME).astype(np.int32), (stop - start).astype(np.int32), max_tokens, seed=seed
        )
        self._store, self._pad = store, pad

    def __len__(self) -> int:
        return len(self._windows)

    def batch(self, rows: NDArray[np.int64]) -> ReaderBatch | None:
        """The given windows; None if a process has no share of a batch."""
        if not len(rows):
            return None
        questions, documents, targets = [], [], []
        for row, start, stop in self._windows[rows].tolist():
            questions.append(self._store.question(row))
            documents.append(self._store.document(row)[start:stop])
            first, last = self._store.about[row, 1:].tolist()
            inside = first != NONE and start <= first and last < stop
            targets.append((first - start + 1, last - start + 1) if inside else (0, 0))
        target = torch.tensor(targets)
        return ReaderBatch(padded(questions, self._pad), padded(documents, self._pad), target[:, 0], target[:, 1])
