"""Settings of the source of questions, documents and answers."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from regard.data.pairs import Columns
from regard.data.settings import WORDS, Column, FilesSettings, OneTextTokenizer, column, held_out

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
