"""A question and a document of the user in the form that models read, window by window
(`data/windows.py`). No torch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.data.pairs import Columns
from regard.data.settings import WORDS, Column, FilesSettings, OneTextTokenizer, column, held_out
from regard.data.tokenizer import Tokenizer
from regard.data.windows import windows
from regard.errors import CallError
from regard.files.lines import read_text
from regard.inputs.joint_reader import two_of
from regard.inputs.text_axis import two_axis
from regard.look.axis import Axis

# Settings of the source of questions, documents and answers.

FRAME = 3  # tokens around a pair: [CLS] question [SEP] document [SEP]


class QuestionDataSettings(FilesSettings):
    """Questions, the documents that answer them, and the places of the answers.

    Each of train, valid and test is FILE.json (SQuAD, v1.1 or v2.0), FILE.tsv, .csv or .jsonl (columns question,
    document, answer and, if it is known, start; also .gz, .bz2, .xz, .zst), or corpus:NAME (comes with regard).
    """

    format: Literal["auto", "squad", "tsv", "csv", "jsonl"] = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        "auto", description="format of the files; auto goes by the ending of the name, and .json is squad"
    )
    question: Column | None = column("question", "first")
    document: Column | None = column("document", "second")
    answer: Column | None = column("answer", "third")
    start: Column | None = column("answer's first character in the document, from 0", "fourth", "start")
    no_answer: bool = Field(False, description="an empty answer means that the document has none (SQuAD v2.0)")
    tokenizer: OneTextTokenizer = Field(WORDS, description="how text is cut; a pretrained encoder brings its own")
    max_length: int = Field(384, ge=8, description="maximum tokens of a question and a window, including three marks")
    max_question: int = Field(64, ge=1, description="maximum tokens of a question; longer ones are cut")
    overlap: int = Field(128, ge=0, description="tokens that neighboring windows of a long document share")
    valid_share: float = held_out(0.05, "training documents")

    @property
    def columns(self) -> Columns:
        wanted = {"question": self.question, "document": self.document, "answer": self.answer, "start": self.start}
        return Columns(wanted, self.header, optional="start")

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from self.tokenizer.problems_of_one_text()
        if self.max_question + self.overlap + FRAME >= self.max_length:
            yield (
                "max_length",
                f"must be more than max_question + overlap + {FRAME} = {self.max_question + self.overlap + FRAME}, "
                "or windows of a long document would not advance",
            )
        yield from self.problems_of_columns(**self.columns.wanted)


class QuestionContext(NamedTuple):
    """Question with its document."""

    question: str
    document: str


class WindowItem(NamedTuple):
    """Item of both texts: the ids of the question, and of a window of the document that starts at token `start`."""

    asked: QuestionContext
    question: list[int]
    document: list[int]
    start: int


@dataclass(frozen=True)
class Encoded:
    """Document as tokens: their ids, and the character span of each token."""

    text: str
    ids: NDArray[np.int64]
    chars: NDArray[np.int64]  # tokens × 2

    def __len__(self) -> int:
        return len(self.ids)

    def tokens_of(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the first and last token that overlap start ≤ i < end; None if no token does."""
        inside = np.flatnonzero((self.chars[:, 0] < end) & (self.chars[:, 1] > start))
        return (int(inside[0]), int(inside[-1])) if len(inside) else None


@lru_cache(maxsize=64)  # consecutive questions are mostly on one document
def encode_document(tokenizer: Tokenizer, text: str) -> Encoded:
    spans = tokenizer.spans(text)
    chars = np.array([span[:2] for span in spans], np.int64).reshape(-1, 2)
    return Encoded(text, np.array(tokenizer.encode(text), np.int64), chars)


class QuestionReader:
    """Base class of question readers, with torch and without. `marked`: whether both texts are read as one, <s>
    question </s> document </s>.
    """

    recipe: Any
    tokenizer: Tokenizer
    marked: Any

    def parse(self, words: Sequence[str | tuple[str, ...]]) -> list[QuestionContext]:
        return [self.asked(word) for word in words]

    def subject(self, file: str) -> str:
        return read_text(file)

    def about(self, words: Sequence[str], subject: str) -> list[QuestionContext]:
        return [QuestionContext(question, subject) for question in words]

    def asked(self, one: Any) -> QuestionContext:
        """Split a pair, a mapping of both, or a text with a tab or a line end."""
        found = two_of(one, QuestionContext._fields, "\t" if isinstance(one, str) and "\t" in one else "\n")
        if found is None or not all(isinstance(text, str) for text in found):
            raise CallError(
                f"{one!r} is not a question and a document: give question<TAB>document (on the command line also "
                '"question" --about FILE), or in Python {"question": ..., "document": ...}'
            )
        return QuestionContext(*found)

    def word(self, one: Any) -> str:
        return "\n".join(self.asked(one))

    def name(self, one: Any) -> str:
        return self.asked(one).question

    def document(self, one: Any) -> Encoded:
        """Return the whole document as text."""
        return encode_document(self.tokenizer, self.asked(one).document)

    def read(self, one: Any) -> WindowItem:
        """Return the first window."""
        return next(self.in_windows(one))

    def in_windows(self, one: Any) -> Iterator[WindowItem]:
        """Return every window of the document, with the question."""
        asked, ids = self.asked(one), self.document(one).ids.tolist()
        data = self.recipe.data
        question = self.tokenizer.encode(asked.question)[: data.max_question]
        for start, stop in windows(len(ids), data.max_length - FRAME - len(question), data.overlap):
            yield WindowItem(asked, question, ids[start:stop], start)

    def is_overlong(self, one: Any) -> bool:
        return sum(1 for _ in islice(self.in_windows(one), 2)) > 1

    @property
    def limit(self) -> str:
        return f"data.max_length={self.recipe.data.max_length} tokens: they are read in overlapping windows"

    def length(self, item: WindowItem) -> int:
        asked, read = len(item.question), len(item.document)
        return asked + read + FRAME if asked and read else 0

    def axis(self, item: WindowItem) -> Axis:
        """Return the ids of both texts with their marks."""
        specials = self.tokenizer.specials
        marks = (specials.start, specials.end) if self.marked else (None, None)
        return two_axis(self.tokenizer, item.asked, (item.question, item.document), *marks, start=item.start)

    def sides(self, item: WindowItem) -> tuple[slice, slice]:
        """Return the axis of the question and the document."""
        mark, asked = int(self.marked), len(item.question)
        first = mark + asked + mark
        return slice(mark, mark + asked), slice(first, first + len(item.document))
