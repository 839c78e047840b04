"""Questions with their documents and answers, from the user's files.

    SQuAD's JSON     {"data": [{"title", "paragraphs": [{"context", "qas": [{"id", "question", "answers": [...]}]}]}]}
    a table          question, document, answer and, if it is known, the answer's first character in the document;
                     in JSONL and Parquet, `answer` and `start` may be lists, for several correct answers

Rajpurkar et al. 2016 (arXiv:1606.05250) for v1.1, 2018 (arXiv:1806.03822) for v2.0, whose questions without an answer
have `"is_impossible": true`. An unusable question (its answer does not occur in the document, its text is empty)
becomes a `SkippedLine` with its place: the line, or in SQuAD's JSON the number of the question, from 1, and its id.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from regard.corpora import PREFIX, texts
from regard.data.examples import Example
from regard.data.files import TABLES, FileSource
from regard.data.pairs import SkippedLine, excerpt
from regard.data.tables import Role
from regard.errors import CallError, nearest
from regard.files.lines import BROKEN, open_bytes
from regard.inputs.question.windows import QuestionContext, QuestionDataSettings

Where = Literal["given", "only", "first", "moved"]
Chars = tuple[int, int]


class QuestionRow(NamedTuple):
    """Question with its document. `answers`: correct character spans start ≤ i < end of the document; empty if it has
    no answer.

    `placed`: how the first answer was found. The file gave its place; the document has it once; the document has it
    several times, and the first is used; the file gave a wrong place, and the nearest occurrence is used.
    """

    question: str
    document: str
    answers: tuple[Chars, ...]
    file: str
    line: int
    placed: Where = "given"

    @property
    def key(self) -> str:
        """Split off validation questions whose documents do not occur in training."""
        return self.document

    @property
    def texts(self) -> list[str]:
        return [self.document[start:end] for start, end in self.answers]

    @property
    def example(self) -> Example:
        """Return the texts of the correct answers; the empty text if there is no answer."""
        return Example(QuestionContext(self.question, self.document), tuple(dict.fromkeys(self.texts)) or ("",))


def question_of(
    question: Any, document: Any, answers: Any, starts: Any, file: str, line: int, *, no_answer: bool, about: str = ""
) -> QuestionRow | SkippedLine:
    """Return a question, or a `SkippedLine` if a text is not a string or an answer is not in the document. `about` is
    its name
    in messages.
    """
    for name, value in (("question", question), ("document", document)):
        if not isinstance(value, str):
            return SkippedLine(file, line, "columns", f"{about}the {name} is {type(value).__name__}, not text")
        if not value.strip():
            return SkippedLine(file, line, "empty", f"{about}the {name} is empty", excerpt(question))
        try:
            value.encode()
        except UnicodeEncodeError as problem:
            reason = f"{about}character {problem.start + 1} of the {name} is half of a surrogate pair"
            return SkippedLine(file, line, "encoding", reason, excerpt(ascii(value)))
    texts = [text for text in _as_list(answers) if text != ""]
    if not texts:
        if no_answer:
            return QuestionRow(question, document, (), file, line)
        reason = f"{about}the answer is empty (if it means that there is none: data.no_answer=true)"
        return SkippedLine(file, line, "empty", reason, excerpt(question))
    places = [place for place in _as_list(starts) if place not in (None, "")]
    if places and len(places) != len(texts):
        return SkippedLine(
            file, line, "columns", f"{about}{len(texts)} answers and {len(places)} starts", excerpt(question)
        )
    found: list[tuple[Chars, Where]] = []
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            return SkippedLine(file, line, "columns", f"{about}the answer is {type(text).__name__}, not text")
        try:
            start = int(places[number]) if places else None
        except (TypeError, ValueError):
            return SkippedLine(
                file, line, "columns", f"{about}the start {places[number]!r} is not a number", excerpt(question)
            )
        place = _place(document, text.strip(), start)
        if place is None:
            return SkippedLine(
                file, line, "not found", f"{about}the answer does not occur in the document", excerpt(text)
            )
        found.append(place)
    return QuestionRow(question, document, tuple(chars for chars, _ in found), file, line, found[0][1])


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _place(document: str, text: str, start: int | None) -> tuple[Chars, Where] | None:
    if not text:
        return None
    if start is not None and start >= 0 and document.startswith(text, start):
        return (start, start + len(text)), "given"
    first = document.find(text)
    if first < 0:
        return None
    if start is None:
        several = document.find(text, first + 1) >= 0
        return (first, first + len(text)), "first" if several else "only"
    places, at = [], first
    while at >= 0:
        places.append(at)
        at = document.find(text, at + 1)
    at = min(places, key=lambda place: abs(place - start))
    return (at, at + len(text)), "moved"


# ---------------------------------------------------------------------------------------------------------- the formats
def read_squad(path: Path, *, no_answer: bool) -> Iterator[QuestionRow | SkippedLine]:
    """Read SQuAD's JSON; the whole file is in memory, as its format requires."""
    try:
        with open_bytes(path) as file:
            tree = json.loads(file.read())
    except UnicodeDecodeError as problem:
        raise CallError(f"{path}: byte {problem.start + 1} is not UTF-8") from None
    except (ValueError, RecursionError, *BROKEN) as problem:
        raise CallError(f"{path}: is not JSON ({problem}); for one object a line, set data.format=jsonl") from None
    articles = tree.get("data") if isinstance(tree, Mapping) else None
    if not isinstance(articles, list):
        raise CallError(f'{path}: is not in SQuAD\'s format, {{"data": [{{"paragraphs": [...]}}]}}')
    where, number = f"{path} (questions counted)", 0
    for article, part in enumerate(articles):
        for paragraph, one in enumerate(_list(part, "paragraphs", path, f"data[{article}]")):
            at = f"data[{article}].paragraphs[{paragraph}]"
            for asked in _list(one, "qas", path, at):
                number += 1
                if not isinstance(asked, Mapping):
                    yield SkippedLine(
                        where, number, "columns", f"{at}: a question is {type(asked).__name__}, not an object"
                    )
                    continue
                answers = asked.get("answers") or []
                if not isinstance(answers, list) or not all(isinstance(answer, Mapping) for answer in answers):
                    yield SkippedLine(where, number, "columns", f"{at}: the answers are not a list of objects")
                    continue
                impossible = bool(asked.get("is_impossible"))
                yield question_of(
                    asked.get("question"), one.get("context"),
                    [] if impossible else [answer.get("text") for answer in answers],
                    [] if impossible else [answer.get("answer_start") for answer in answers],
                    where, number, no_answer=no_answer, about=f"{at}, id {asked.get('id', '?')}: ",
                )  # fmt: skip


def _list(tree: Any, name: str, path: Path, at: str) -> list[Any]:
    found = tree.get(name) if isinstance(tree, Mapping) else None
    if not isinstance(found, list):
        raise CallError(f"{path}: {at} has no list {name!r}, as SQuAD's format has")
    return found


CORPORA = ("stories",)


@dataclass(frozen=True)
class QuestionSource(FileSource[QuestionRow]):
    endings: ClassVar[dict[str, str]] = {".json": "squad"} | TABLES
    no_answer: bool = False

    @classmethod
    def of(cls, settings: QuestionDataSettings, where: str, role: Role) -> "QuestionSource":
        return cls(where, role, settings.columns, settings.format, settings.no_answer)

    def read(self) -> Iterator[QuestionRow | SkippedLine]:
        if self.where.startswith(PREFIX):
            yield from self._corpus()
        elif self.lists_answers:
            for path in self.shards:
                yield from read_squad(path, no_answer=self.no_answer)
        else:
            for row in chain.from_iterable(map(self.cells, self.shards)):
                if isinstance(row, SkippedLine):
                    yield row
                else:
                    question, document, answer, start = row.values
                    yield question_of(question, document, answer, start, row.file, row.line, no_answer=self.no_answer)

    @property
    def lists_answers(self) -> bool:
        """Whether each entry has all correct answers of its question (SQuAD's format), so that each is a separate
        question.
        """
        return not self.where.startswith(PREFIX) and self.format_of(self.shards[0]) == "squad"

    def _corpus(self) -> Iterator[QuestionRow | SkippedLine]:
        name = self.where.removeprefix(PREFIX)
        if name not in CORPORA:
            raise CallError(f"{self.name}: no corpus of questions{nearest(name, CORPORA)}")
        for number, one in enumerate(_stories(self.role), start=1):
            yield question_of(
                one.question, one.document, one.answer, one.start, self.where, number, no_answer=self.no_answer
            )


@lru_cache(maxsize=3)
def _stories(role: Role) -> list[texts.Story]:
    return texts.load(role)
