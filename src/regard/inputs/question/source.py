"""Where questions come from."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from regard.corpora import PREFIX, stories
from regard.data.files import TABLES, FileSource
from regard.data.pairs import Bad
from regard.data.splits import places
from regard.data.tables import Role
from regard.errors import CallError, nearest
from regard.inputs.question.files import Question, QuestionColumns, question_of, read_squad
from regard.inputs.question.settings import QuestionDataSettings

CORPORA = ("stories",)


@dataclass(frozen=True)
class QuestionSource(FileSource):
    """What a string of the settings stands for."""

    endings: ClassVar[dict[str, str]] = {".json": "squad"} | TABLES
    columns: Any = field(default_factory=QuestionColumns)
    no_answer: bool = False

    def read(self) -> Iterator[Question | Bad]:
        """All questions, in the order of the file, and whatever was none."""
        if self.where.startswith(PREFIX):
            yield from self._corpus()
            return
        path, *more = self.files()
        if more:
            raise CallError(f"{self.name}: takes one file of questions")
        form = self.format_of(path)
        if form == "squad":
            yield from read_squad(path, no_answer=self.no_answer)
            return
        for row in self.cells(form, path):
            if isinstance(row, Bad):
                yield row
            else:
                question, document, answer, start = row.values
                yield question_of(question, document, answer, start, row.file, row.line, no_answer=self.no_answer)

    @property
    def lists_answers(self) -> bool:
        """SQuAD's format lists all right answers with a question, so that each entry is a question of its own."""
        return not self.where.startswith(PREFIX) and self.format_of(self.files()[0]) == "squad"

    def _corpus(self) -> Iterator[Question | Bad]:
        name = self.where.removeprefix(PREFIX)
        if name not in CORPORA:
            raise CallError(f"{self.name}: no corpus of questions{nearest(name, CORPORA)}")
        for number, one in enumerate(_stories(self.role), start=1):
            yield question_of(
                one.question, one.document, one.answer, one.start, self.where, number, no_answer=self.no_answer
            )


@lru_cache(maxsize=3)
def _stories(role: Role) -> list[stories.Story]:
    return stories.load(role)


def question_sources(settings: QuestionDataSettings) -> dict[Role, QuestionSource]:
    """Where the settings say that the questions of each role are."""
    s = settings
    columns = QuestionColumns(s.question, s.document, s.answer, s.start, s.header)
    found = places(settings)
    return {role: QuestionSource(where, role, s.format, columns, s.no_answer) for role, where in found.items()}
