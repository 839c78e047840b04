"""Where rows of two inputs and what comes out of them are: a list of three columns, or a corpus of ours.

    data.train=questions.jsonl        .tsv, .csv or .jsonl (also .gz, .zst): an image, a question and an answer a line
    data.train=corpus:shapes-questions

Nothing but the list is opened here: what a cell of the first column stands for (a file, most often), its input says.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.corpora.asked import load_asked
from regard.corpora.pictures import PREFIX
from regard.data.formats import cells, csv_rows, find_places, unreadable
from regard.data.pairs import Bad, Columns, Pair, pair_of, record_pair
from regard.data.settings import Column, JointFormat
from regard.data.tables import SPLIT_NAMES, Role, corpora_version
from regard.data.text_hash import text_hash
from regard.errors import CallError
from regard.files.jsonl import read_jsonl
from regard.files.lines import read_lines

_ENDINGS: dict[str, JointFormat] = {
    ".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
}  # fmt: skip


class JointRow(NamedTuple):
    """`name` says which rows have the same first input. `first` is a cell of the list, or what a corpus has."""

    name: str
    first: Any
    second: str
    target: str
    file: str
    line: int
    gold: Any = None


@dataclass(frozen=True)
class JointSource:
    """`columns`: what the three are called, each with its name or number in the list, if it is another one.

    `part`: all of it, or one side of a division by a hash of the first input: what is held out for validation is asked
    about inputs never seen.
    """

    where: str
    role: Role
    columns: tuple[tuple[str, Column | None], ...]
    header: bool | None = None
    format: JointFormat = "auto"
    split: str | None = None  # column that says train, valid or test
    part: Literal["all", "kept", "held out"] = "all"
    share: float = 0.0

    def read(self) -> Iterator[JointRow | Bad]:
        limit = int(self.share * 2**64)
        for item in self._all():
            if isinstance(item, Bad) or self.part == "all":
                if self.part != "held out":  # what is bad is reported once
                    yield item
            elif (text_hash(item.name, b"held out") < limit) == (self.part == "held out"):
                yield item

    def held_out(self, valid_share: float, valid_most: int) -> "tuple[JointSource, JointSource]":
        """What is left for training, and what is not."""
        total = sum(not isinstance(item, Bad) for item in self.read())
        share = min(valid_share, valid_most / max(1, total))
        return replace(self, part="kept", share=share), replace(self, part="held out", share=share)

    @property
    def file(self) -> Path | None:
        """The list; None for a corpus, whose rows bring what they are about."""
        if self.where.startswith(PREFIX):
            return None
        path = Path(self.where).expanduser()
        if not path.is_file():
            raise CallError(f"data.{self.role}={self.where}: there is no such file")
        return path

    def key(self) -> list[Any]:
        """What the rows depend on, for the cache."""
        how = [self.where, self.role, self.columns, self.header, self.format, self.split, self.part, self.share]
        path = self.file
        if path is None:
            return [*how, corpora_version()]
        return [*how, str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns]

    def __str__(self) -> str:
        return self.where if self.part == "all" else f"{self.where} ({self.part})"

    # --------------------------------------------------------------------------------------------------------- reading
    def _all(self) -> Iterator[JointRow | Bad]:
        path = self.file
        if path is None:
            for number, one in enumerate(load_asked(self.where, self.role), start=1):
                yield JointRow(one.name, one.first, one.second, one.target, self.where, number, one.gold)
            return
        yield from self._jsonl(path) if self._format(path) == "jsonl" else self._table(path)

    def _format(self, path: Path) -> JointFormat:
        if self.format != "auto":
            return self.format
        ending = (Path(path.stem).suffix if path.suffix in (".gz", ".zst") else path.suffix).lower()
        if ending not in _ENDINGS:
            raise CallError(
                f"data.{self.role}={self.where}: the ending {ending!r} says no format; use one of "
                f"{', '.join(_ENDINGS)} (also .gz, .zst), or set data.format"
            )
        return _ENDINGS[ending]

    def _table(self, path: Path) -> Iterator[JointRow | Bad]:
        """TSV (quotes mean nothing) or CSV."""
        tabs = self._format(path) == "tsv"
        rows = ((line, line.text.split("\t"), 1) for line in read_lines(path)) if tabs else csv_rows(path)
        given = dict(self.columns) | ({} if self.split is None else {"split": self.split})
        sides = [name for name, _ in self.columns]
        for found in cells(path, rows, lambda first: find_places(path, first, given, self.header)):
            if isinstance(found, Bad):
                yield found
                continue
            places, fields, number = found
            texts = [fields[place] for place in places if place is not None]
            if self.split is None or self._wanted(texts[3]):
                pairs = [
                    pair_of(texts[at], texts[at + 1], str(path), number, Columns(sides=(sides[at], sides[at + 1])))
                    for at in (0, 1)
                ]
                yield self._row(*pairs)

    def _jsonl(self, path: Path) -> Iterator[JointRow | Bad]:
        """One JSON object a line; an answer may be a number."""
        (a, first), (b, second), (c, target) = self.columns
        columns = Columns(first, second, sides=(a, b)), Columns(second, target, sides=(b, c), target_text=_text)
        for line, record in read_jsonl(path):
            if record is None:
                yield unreadable(path, line)
            elif self.split is None or self._wanted(record.get(self.split)):
                yield self._row(*(record_pair(record, two, str(path), line.number) for two in columns))

    def _wanted(self, split: object) -> bool:
        return isinstance(split, str) and split.strip().lower() in SPLIT_NAMES[self.role]

    @staticmethod
    def _row(one: Pair | Bad, other: Pair | Bad) -> JointRow | Bad:
        if isinstance(one, Bad):
            return one
        if isinstance(other, Bad):
            return other
        return JointRow(one.source, one.source, one.target, other.target, one.file, one.line)


def _text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
