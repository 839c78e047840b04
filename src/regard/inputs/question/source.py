"""Where questions come from, and which of them are for training, for validation, for testing."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from regard.corpora import stories
from regard.data.pairs import Bad
from regard.data.tables import Role, corpora_version
from regard.data.text_hash import text_hash
from regard.errors import CallError, nearest
from regard.inputs.question.files import (
    Question,
    QuestionColumns,
    question_of,
    read_questions_jsonl,
    read_squad,
    read_table,
)
from regard.inputs.question.settings import QuestionDataSettings

_ENDINGS = {".json": "squad", ".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
CORPORA = ("stories",)


@dataclass(frozen=True)
class QuestionSource:
    """What a string of the settings stands for."""

    where: str
    role: Role = "train"
    format: str = "auto"
    columns: QuestionColumns = field(default_factory=QuestionColumns)
    no_answer: bool = False

    def read(self) -> Iterator[Question | Bad]:
        """All questions, in the order of the file, and whatever was none."""
        if self.where.startswith("corpus:"):
            yield from self._corpus()
            return
        path, form = self._file(), self._format()
        if form == "squad":
            yield from read_squad(path, no_answer=self.no_answer)
        elif form == "jsonl":
            yield from read_questions_jsonl(path, self.columns, no_answer=self.no_answer)
        else:
            yield from read_table(path, self.columns, form == "csv", no_answer=self.no_answer)

    @property
    def lists_answers(self) -> bool:
        """SQuAD's format lists all right answers with a question, so that each entry is a question of its own."""
        return not self.where.startswith("corpus:") and self._format() == "squad"

    def inputs(self) -> list[Any]:
        """What the questions depend on, for the cache."""
        columns = [*self.columns.given.values(), self.columns.header]
        how = [self.where, self.role, self.format, *columns, self.no_answer]
        if self.where.startswith("corpus:"):
            return [*how, corpora_version()]
        stat = self._file().stat()
        return [*how, str(self._file().resolve()), stat.st_size, stat.st_mtime_ns]

    def _file(self) -> Path:
        path = Path(self.where).expanduser()
        if not path.is_file():
            raise CallError(f"data.{self.role}={self.where}: there is no such file")
        return path

    def _format(self) -> str:
        if self.format != "auto":
            return self.format
        path = Path(self.where)
        ending = (Path(path.stem).suffix if path.suffix in (".gz", ".zst") else path.suffix).lower()
        if ending not in _ENDINGS:
            raise CallError(
                f"data.{self.role}={self.where}: the ending {ending!r} says no format; use one of "
                f"{', '.join(_ENDINGS)} (also .gz, .zst), or set data.format"
            )
        return _ENDINGS[ending]

    def _corpus(self) -> Iterator[Question | Bad]:
        name = self.where.removeprefix("corpus:")
        if name not in CORPORA:
            raise CallError(f"data.{self.role}={self.where}: no corpus of questions{nearest(name, CORPORA)}")
        for number, one in enumerate(_stories(self.role), start=1):
            yield question_of(
                one.question, one.document, one.answer, one.start, self.where, number, no_answer=self.no_answer
            )


@lru_cache(maxsize=3)
def _stories(role: Role) -> list[stories.Story]:
    return stories.load(role)


@dataclass(frozen=True)
class QuestionSplit:
    """All of a source, or one side of a division by a hash of the document.

    The hash keeps the questions of a document together: what is asked in validation is about texts never seen.
    """

    source: QuestionSource
    part: Literal["all", "kept", "held out"] = "all"
    share: float = 0.0

    def read(self) -> Iterator[Question | Bad]:
        limit = int(self.share * 2**64)
        for item in self.source.read():
            if self.part == "all":
                yield item
            elif isinstance(item, Bad):
                if self.part == "kept":  # once is enough
                    yield item
            elif (text_hash(item.document, b"held out") < limit) == (self.part == "held out"):
                yield item

    def inputs(self) -> list[Any]:
        return [*self.source.inputs(), self.part, self.share]

    def __str__(self) -> str:
        return self.source.where if self.part == "all" else f"{self.source.where} ({self.part})"


def question_source(settings: QuestionDataSettings, role: Role) -> QuestionSource | None:
    """Where the settings say that questions come from. A corpus of ours brings its own parts."""
    where = {"train": settings.train, "valid": settings.valid, "test": settings.test}[role]
    if where is None and settings.train.startswith("corpus:"):
        where = settings.train
    s = settings
    columns = QuestionColumns(s.question, s.document, s.answer, s.start, s.header)
    return None if where is None else QuestionSource(where, role, s.format, columns, s.no_answer)


def find_question_splits(settings: QuestionDataSettings, questions: int) -> dict[Role, QuestionSplit]:
    """The splits there are; without data.valid, the questions of some documents are held out."""
    train, valid, test = (question_source(settings, role) for role in ("train", "valid", "test"))
    assert train is not None
    if valid is None:
        share = min(settings.valid_share, settings.valid_most / max(1, questions))
        splits: dict[Role, QuestionSplit] = {
            "train": QuestionSplit(train, "kept", share),
            "valid": QuestionSplit(train, "held out", share),
        }
    else:
        splits = {"train": QuestionSplit(train), "valid": QuestionSplit(valid)}
    if test is not None:
        splits["test"] = QuestionSplit(test)
    return splits
