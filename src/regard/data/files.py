"""The user's files as a stream of examples: tables (TSV, CSV, JSON, Parquet, TMX), CoNLL, two parallel text files,
folders of classes, data sets, our corpora.

    data.train=pairs.tsv.gz   data.train=train.en,train.de   data.train=corpus:pocket   data.train=hub:NAME
    data.train='pairs-?????-of-00003.jsonl'

Nothing is held in memory but the rows at hand. A line that is no example becomes a `Bad` with its number and the
reason; what makes the whole file unusable (it is missing, it has no such column, it is UTF-16) is raised.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from regard.corpora import PREFIX
from regard.data.class_folders import has_classes, read_class_folders
from regard.data.columns import are_names
from regard.data.conll import is_conll, read_conll
from regard.data.formats import (
    Cells,
    Row,
    csv_rows,
    is_tab_table,
    jsonl_cells,
    record_cells,
    table_cells,
    tsv_rows,
    unreadable,
)
from regard.data.pairs import PLAIN, Bad, Columns, Pair, both_texts, pair_of
from regard.data.settings import FilesSettings
from regard.data.tables import (
    SPLIT_NAMES,
    Role,
    corpora_version,
    dataset_cells,
    parquet_records,
    read_corpus,
    workbook_rows,
)
from regard.data.tmx import tmx_records
from regard.errors import CallError
from regard.files.lines import PACKED, ending, read_lines
from regard.files.shards import files_of, is_pattern

TABLES = {
    ".tsv": "tsv", ".tab": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet",
    ".arrow": "parquet", ".tmx": "tmx", ".xlsx": "xlsx",
}  # fmt: skip
_SURE = (".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".arrow", ".tmx")  # they hold no words with a tag a line
_CONLL = dict.fromkeys((".conll", ".conllu", ".iob", ".bio"), "conll")


class Read(Protocol):
    """One example of a file."""

    @property
    def key(self) -> str:
        """What of it must not be in training and in validation."""
        ...


T_co = TypeVar("T_co", bound=Read, covariant=True)


@dataclass(frozen=True)
class Source(ABC, Generic[T_co]):
    """Where examples are read from: what a string of the settings stands for."""

    endings: ClassVar[dict[str, str]] = TABLES  # of the formats that can be read

    where: str
    role: Role = "train"
    columns: Columns = PLAIN
    format: str = "auto"

    @classmethod
    def of(cls, settings: Any, where: str, role: Role) -> Any:
        """As a data section says that examples are read."""
        return cls(where, role, settings.columns, settings.format)

    @classmethod
    def by_role(cls, settings: Any) -> dict[Role, Any]:
        """Where a data section says that the examples of each role are."""
        return {role: cls.of(settings, where, role) for role, where in places(settings).items()}

    @abstractmethod
    def read(self) -> Iterator[T_co | Bad]:
        """All examples in the order of the files, and whatever was none."""

    @property
    def name(self) -> str:
        return f"data.{self.role}={self.where}"

    def paths(self) -> list[Path]:
        """The files that are read; none for a corpus or a data set of the hub."""
        if self.where.startswith((PREFIX, "hub:")):
            return []
        whole = Path(self.where).expanduser()
        if whole.is_dir():
            return sorted(path for path in whole.rglob("*") if path.is_file())
        if is_pattern(whole):
            return self.shards
        parts = [whole] if whole.exists() else [Path(part.strip()).expanduser() for part in self.where.split(",")]
        for part in parts:
            if not part.exists():
                raise CallError(f"{self.name}: there is no file {part}")
            if part.is_dir():
                raise CallError(f"{self.name}: {part} is a folder; name a file of it")
        return parts

    @property
    def shards(self) -> list[Path]:
        """The files that are read one after the other: those of a pattern, or the only one."""
        found = files_of(self.where) if is_pattern(self.where) else [self.path]
        if not found:
            raise CallError(f"{self.name}: there is no file of that pattern")
        return found

    @property
    def path(self) -> Path:
        """The only file."""
        path, *more = self.paths()
        if more:
            raise CallError(f"{self.name}: takes one file")
        return path

    def depends_on(self) -> list[Any]:
        """What the examples depend on, for the cache: the files (name, size, time of change) and how they are read. A
        data set of the hub is taken not to change."""
        how = [repr(self)]
        if self.where.startswith(PREFIX):
            return [*how, corpora_version()]
        seen = ((path.resolve(), path.stat()) for path in self.paths())
        return [*how, *([str(path), stat.st_size, stat.st_mtime_ns] for path, stat in seen)]

    def format_of(self, path: Path) -> str:
        if self.format != "auto":
            return self.format
        suffix = ending(path)
        if self.columns.one_to_one and suffix not in _SURE and is_conll(path):
            return "conll"
        if suffix not in self.endings and is_tab_table(path):
            return "tsv"
        if suffix not in self.endings:
            raise CallError(
                f"{self.name}: the ending {suffix!r} says no format; use one of "
                f"{', '.join(self.endings)} (also {', '.join(PACKED)}), or set data.format"
            )
        return self.endings[suffix]

    def cells(self, path: Path | None = None) -> Iterator[Cells | Bad]:
        """The cells that are sought, of a table, or else of a data set; where a column says the split, of this one."""
        form = "dataset" if path is None else self.format_of(path)
        if path is None:
            rows = dataset_cells(self.where, self.role, self.columns)
        elif form == "jsonl":
            rows = jsonl_cells(path, self.columns)
        elif form == "parquet":
            rows = record_cells(str(path), enumerate(parquet_records(path), start=1), self.columns)
        elif form == "tmx":
            rows = record_cells(str(path), enumerate(tmx_records(path), start=1), self.columns)
        elif form == "xlsx":
            rows = self._table(path, workbook_rows(path))
        else:
            rows = self._table(path, csv_rows(path) if form == "csv" else tsv_rows(path))
        return rows if self.columns.split is None else self._of_split(rows)

    def _table(self, path: Path, rows: Iterator[Row]) -> Iterator[Cells | Bad]:
        """Of a table. One for validation or test may be other than that of training: one with a line of names."""
        if self.role != "train" and self.columns.header is False:
            first = next(rows, None)
            if first is not None and are_names(first.fields):
                raise CallError(
                    f"{self.name}: the first line names columns ({', '.join(first.fields)}), and the training data has "
                    "no such line (data.header=false). Remove the line if the columns are the same, "
                    "else write a table of the columns of the training data"
                )
            rows = chain(() if first is None else (first,), rows)
        return table_cells(path, rows, self.columns)

    def _of_split(self, rows: Iterator[Cells | Bad]) -> Iterator[Cells | Bad]:
        seen, wanted = set[str](), SPLIT_NAMES[self.role]
        for row in rows:
            if isinstance(row, Bad):
                yield row
                continue
            *values, split = row.values
            seen.add(said := str(split).strip().lower())
            if said in wanted:
                yield row._replace(values=tuple(values))
        if seen.isdisjoint(wanted):
            has = ", ".join(sorted(seen)[:6]) or "nothing"
            raise CallError(
                f"data.split={self.columns.split}: no line of {self.where} says {wanted[0]!r}; it has {has}"
            )


def places(settings: Any) -> dict[Role, str]:
    """Where the settings say that the examples of each role are. A corpus of ours brings all three, and some files
    bring more than what they are given for."""
    given: dict[Role, str | None] = {"train": settings.train, "valid": settings.valid, "test": settings.test}
    brings = settings.brings if isinstance(settings, FilesSettings) else ()
    own = given.keys() if settings.train.startswith(PREFIX) else brings
    return {role: where or settings.train for role, where in given.items() if where is not None or role in own}


@dataclass(frozen=True)
class PairSource(Source[Pair]):
    """Where pairs are read from."""

    endings: ClassVar[dict[str, str]] = TABLES | {".json": "jsonl"} | _CONLL

    def read(self) -> Iterator[Pair | Bad]:
        columns: Columns = self.columns
        if self.where.startswith(PREFIX):
            return read_corpus(self.where, self.role, columns)
        folder = Path(self.where).expanduser()
        if columns.folders and self.format != "dataset" and has_classes(folder):
            return read_class_folders(folder, self.name, columns)
        if self.where.startswith("hub:") or self.format == "dataset" or folder.is_dir():
            return _pairs(self.cells(), columns)
        files = self.paths()
        if is_pattern(self.where):
            return chain.from_iterable(map(self._pairs_of, files))
        if len(files) == 2:
            return read_parallel(files[0], files[1], columns)
        if len(files) > 2:
            raise CallError(f"{self.name}: takes one file of pairs or two parallel files")
        return self._pairs_of(files[0])

    def _pairs_of(self, file: Path) -> Iterator[Pair | Bad]:
        form = self.format_of(file)
        if form == "text":
            raise CallError(f"{self.name}: text files come in two, data.{self.role}=SOURCE_FILE,TARGET_FILE")
        return read_conll(file, self.columns) if form == "conll" else _pairs(self.cells(file), self.columns)


def _pairs(rows: Iterator[Cells | Bad], columns: Columns) -> Iterator[Pair | Bad]:
    for row in rows:
        if isinstance(row, Bad):
            yield row
        else:
            *sources, target = row.values
            source = sources[0]
            if len(sources) == 2:
                source = both_texts(source, sources[1], row.file, row.line, columns)
            yield source if isinstance(source, Bad) else pair_of(source, target, row.file, row.line, columns)


def read_parallel(source: Path, target: Path, columns: Columns) -> Iterator[Pair | Bad]:
    """Line i of one file belongs to line i of the other. Surplus lines of the longer one are reported as one `Bad`."""
    last = 0
    left, right = read_lines(source), read_lines(target)
    for one, other in zip_longest(left, right):
        if one is None or other is None:
            longer, shorter, rest = (source, target, left) if other is None else (target, source, right)
            surplus = 1 + sum(1 for _ in rest)
            reason = f"{longer} has {last + surplus:,} lines, {shorter} has {last:,}: lines do not pair up"
            yield Bad(str(longer), last + 1, "unpaired", reason, lines=surplus)
            return
        last = one.number
        spoiled = (source, one) if one.problem else (target, other)
        if spoiled[1].problem:
            yield unreadable(*spoiled)
        else:
            yield pair_of(one.text, other.text, str(source), last, columns)
