"""From settings to token ids of questions: count, learn the vocabulary, tokenize; each step once (`data/cache.py`)."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.data.cache import built_once
from regard.data.pairs import Bad
from regard.data.read_report import ReadReport
from regard.data.tables import Role
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.inputs.question.settings import QuestionDataSettings
from regard.inputs.question.source import QuestionSplit, find_question_splits, question_source
from regard.inputs.question.store import VERSION, QuestionStore, write_questions


class PreparedQuestions(NamedTuple):
    tokenizer: Tokenizer
    splits: dict[Role, QuestionSplit]
    stores: dict[Role, QuestionStore]


def prepare_questions(
    settings: QuestionDataSettings, cache: Path, *, tokenizer: Tokenizer | None = None, strict: bool = True
) -> PreparedQuestions:
    """Bring the user's files into a form that training reads quickly; `settings.cache` comes before `cache`.

    `tokenizer` is used as it is, instead of learning one: that of a run that goes on, or of a pretrained encoder.
    `strict` refuses data with more unusable questions than `data.max_bad`; without it they are only counted.
    """
    cache = Path(settings.cache).expanduser() if settings.cache else cache
    train = question_source(settings, "train")
    assert train is not None

    def count(folder: Path) -> None:
        report = ReadReport()
        for _ in report.only_pairs(train.read()):
            pass
        (folder / "count.json").write_text(json.dumps(report.as_dict()), encoding="utf-8")

    counted = built_once(cache, "count", train.inputs(), count)
    report = ReadReport.from_dict(json.loads((counted / "count.json").read_text(encoding="utf-8")))
    if strict or not report.pairs:
        report.refuse_if(f"data.train={settings.train}", settings.max_bad)
    splits = find_question_splits(settings, report.pairs)
    tokenizer = tokenizer or _vocabulary(cache, settings, splits["train"], report.pairs)
    stores: dict[Role, QuestionStore] = {}
    for role, split in splits.items():
        stores[role] = _store(cache, settings, role, split, tokenizer)
        _refuse_if_useless(stores[role], role, split, settings, strict)
    return PreparedQuestions(tokenizer, splits, stores)


def _vocabulary(cache: Path, settings: QuestionDataSettings, train: QuestionSplit, questions: int) -> Tokenizer:
    """Learned from training questions and their documents, and from an even choice of them if there are very many."""
    how = settings.tokenizer
    every = -(-questions // how.learn_from)

    def texts() -> Iterator[str]:
        before = None
        for item in islice((item for item in train.read() if not isinstance(item, Bad)), 0, None, every):
            yield item.question
            if item.document != before:  # once for all questions that follow each other
                yield item.document
            before = item.document

    def build(folder: Path) -> None:
        found = Tokenizer.train(
            texts(), how.kind, size=how.size, min_frequency=how.min_frequency, lowercase=how.lowercase
        )
        found.save(folder / "tokenizer.json")

    folder = built_once(cache, "vocabulary", [train.inputs(), how.model_dump()], build)
    return Tokenizer.load(folder / "tokenizer.json")


def _store(
    cache: Path, settings: QuestionDataSettings, role: Role, split: QuestionSplit, tokenizer: Tokenizer
) -> QuestionStore:
    def build(folder: Path) -> None:
        write_questions(folder, split.read(), tokenizer, name=str(split), max_question=settings.max_question)

    key = [VERSION, split.inputs(), tokenizer.to_json(), settings.max_question]
    return QuestionStore(built_once(cache, role, key, build))


def _refuse_if_useless(
    store: QuestionStore, role: Role, split: QuestionSplit, settings: QuestionDataSettings, strict: bool
) -> None:
    name = f"data.{role}={split}"
    if split.part == "held out" and not len(store):
        raise RegardError(
            f"{name}: nothing was held out by data.valid_share={settings.valid_share:g}; raise it, or give data.valid"
        )
    if strict or not len(store):
        store.counts.read.refuse_if(name, settings.max_bad)
