"""Answers: spans of a document."""

from dataclasses import dataclass
from typing import Any

from regard.outputs.result import Candidate, Prediction


@dataclass(frozen=True)
class Answer(Candidate):
    """Characters start ≤ i < end of the document. No answer is the empty text, without a place."""

    start: int | None = None
    end: int | None = None

    @property
    def span(self) -> tuple[int, int] | None:
        return None if self.start is None or self.end is None else (self.start, self.end)


@dataclass(frozen=True)
class Answers(Prediction):
    """The answers to one question, best first. `score` is the log-probability among all spans of the document."""

    n_best: list[Answer]  # pyright: ignore[reportIncompatibleVariableOverride] (each of them is a candidate)
    document: str = ""

    @property
    def start(self) -> int | None:
        return self.n_best[0].start

    @property
    def end(self) -> int | None:
        return self.n_best[0].end

    def as_dict(self) -> dict[str, Any]:
        return super().as_dict() | {"start": self.start, "end": self.end}
