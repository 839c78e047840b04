"""Where questions come from."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from regard.corpora import PREFIX, stories
from regard.data.files import TABLES, Source
from regard.data.pairs import Bad
from regard.data.tables import Role
from regard.errors import CallError, nearest
from regard.inputs.question.files import Question, question_of, read_squad
from regard.inputs.question.settings import QuestionDataSettings

CORPORA = ("stories",)


@dataclass(frozen=True)
class QuestionSource(Source[Question]):
    endings: ClassVar[dict[str, str]] = {".json": "squad"} | TABLES
    no_answer: bool = False

    @classmethod
    def of(cls, settings: QuestionDataSettings, where: str, role: Role) -> "QuestionSource":
        return cls(where, role, settings.columns, settings.format, settings.no_answer)

    def read(self) -> Iterator[Question | Bad]:
        if self.where.startswith(PREFIX):
            yield from self._corpus()
        elif self.lists_answers:
            yield from read_squad(self.path, no_answer=self.no_answer)
        else:
            for row in self.cells(self.path):
                if isinstance(row, Bad):
                    yield row
                else:
                    question, document, answer, start = row.values
                    yield question_of(question, document, answer, start, row.file, row.line, no_answer=self.no_answer)

    @property
    def lists_answers(self) -> bool:
        """SQuAD's format lists all right answers with a question, so that each entry is a question of its own."""
        return not self.where.startswith(PREFIX) and self.format_of(self.path) == "squad"

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
