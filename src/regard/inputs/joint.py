"""Two inputs at once: a picture and a question, or the two that the row of `jobs.py` names.

    a list of three columns → first: encoder → vectors ┐
                              second: encoder → vectors ┴→ blocks over both → one Memory

Each of the two is an independent `Input` and only has to implement `Input.column`. In a run they share one folder. Two
inputs that keep a file of the same name there (two texts) cannot be combined.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import nn

from regard.corpora import PREFIX
from regard.corpora.loading import load_asked
from regard.data.check import DataCheck, Listing, unknown_advice
from regard.data.check_report import CheckReport
from regard.data.examples import Example, Examples
from regard.data.files import FileSource
from regard.data.pairs import Columns, ReadCounts, SkippedLine, pair_of
from regard.data.prepare import PrepareCache, Split, find_test, with_progress, without_test
from regard.data.store import text_hash
from regard.data.tables import Role
from regard.data.vocabulary import Targets, Vocabulary
from regard.encoders.text import JointEncoder, JointMemory
from regard.inputs.base import Input
from regard.inputs.column import ColumnExamples, InputColumn, TargetRow
from regard.inputs.joint_reader import JointItem, JointReader
from regard.models.build import final_norm, transformer_blocks
from regard.settings.model import TransformerSettings
from regard.settings.recipe import Decision, Recipe

# Rows of two inputs and a target: where they are, and as examples.
#
#     data.train=questions.jsonl        .tsv, .csv, .jsonl, .parquet: an image, a question and an answer a line
#     data.train=corpus:shapes-questions
#
# Only the list is opened here. The first input interprets the cells of the first column (most often file names).


class JointRow(NamedTuple):
    """Row of two inputs. `name` is equal for rows with the same first input. `first` is a cell of the list or an item
    of a corpus.
    """

    name: str
    first: Any
    second: str
    target: str
    file: str
    line: int
    gold: Any = None

    @property
    def key(self) -> str:
        """Split off validation rows whose first inputs do not occur in training."""
        return self.name


@dataclass(frozen=True)
class JointSource(FileSource[JointRow]):
    def read(self) -> Iterator[JointRow | SkippedLine]:
        if self.where.startswith(PREFIX):
            for number, one in enumerate(load_asked(self.where, self.role), start=1):
                yield JointRow(*one[:4], self.where, number, one.gold)
            return
        for row in self.cells(self.path):
            yield row if isinstance(row, SkippedLine) else self._row(row.values, row.file, row.line)

    def _row(self, values: Sequence[Any], file: str, line: int) -> JointRow | SkippedLine:
        first, second, target = values
        a, b, c = self.columns.sides
        number = isinstance(target, int | float) and not isinstance(target, bool)
        asked = pair_of(first, second, file, line, Columns({a: None, b: None}))
        said = pair_of(second, str(target) if number else target, file, line, Columns({b: None, c: None}))
        if isinstance(asked, SkippedLine):
            return asked
        if isinstance(said, SkippedLine):
            return said
        return JointRow(asked.source, asked.source, said.source, said.target, file, line)


ROUNDED = 16  # tokens


class JointExamples(ColumnExamples):
    def __init__(
        self,
        name: str,
        items: Iterable[JointRow | SkippedLine],
        columns: tuple[InputColumn, InputColumn],
        vocabulary: Vocabulary | None,
        limits: Sequence[int | float],
        sampled: float,
        *,
        scored: bool = False,
    ) -> None:
        """Create examples. `sampled`: share of the split in the items, in file order. `scored`: keep long items."""
        counts = ReadCounts(sampled=sampled)
        rows = list(counts.read.only_pairs(_usable(item, columns) for item in items))
        said = [TargetRow(_numbers(row, columns), row.target, row.line, row.gold) for row in rows]
        super().__init__(name, counts, columns, said, vocabulary, limits, scored=scored)
        self._asked = [row.second for row in rows]
        counts.sides = self.sides()
        for one in self.beyond_limits():
            counts.note("overlong", one.line)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Round lengths up. Questions of equal length are often of one kind, and so are their answers. Batches of one
        kind of question would teach that kind only; without rounding, shapes-ask learned hardly anything.
        """
        source, target = (-(-lengths // ROUNDED) * ROUNDED for lengths in super().lengths())
        return source, target

    def digest(self) -> str:
        return blake2b(self.hashes.tobytes(), digest_size=16).hexdigest()

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """Hash of the first input's content (one picture may have two names), and of the second input and target."""
        firsts = {number: self.columns[0].hash(number) for number in {one.numbers[0] for one in self.said}}
        rows = zip(self.said, self._asked, strict=True)
        found = [(firsts[one.numbers[0]], text_hash(f"{asked}\t{one.text}")) for one, asked in rows]
        return np.array(found, np.uint64).reshape(-1, 2)

    def listing(self) -> Listing:
        """Return the data for the data check."""
        return Listing(self.name, self._counts, np.array([one.line for one in self.said], np.int64), self.hashes)


def _usable(item: JointRow | SkippedLine, columns: Sequence[InputColumn]) -> JointRow | SkippedLine:
    if isinstance(item, SkippedLine):
        return item
    names = zip(columns, (item.name, item.second), strict=True)
    why = next((column.why(name) for column, name in names if name not in column.numbers), None)
    return item if why is None else SkippedLine(item.file, item.line, "unreadable", why)


def _numbers(row: JointRow, columns: Sequence[InputColumn]) -> tuple[int, ...]:
    return columns[0].numbers[row.name], columns[1].numbers[row.second]


FEW = 50  # rows that are read to decide on sizes


class JointData(JointReader, Input):
    """Two inputs from a list or from the user; each reads its own column."""

    ahead: ClassVar[bool] = True

    def __init__(self, recipe: Recipe, first: Input, second: Input) -> None:
        super().__init__(recipe)
        self.first, self.second = first, second

    def with_recipe(self, recipe: Recipe) -> Any:
        changed = super().with_recipe(recipe)
        changed.first, changed.second = self.first.with_recipe(recipe), self.second.with_recipe(recipe)
        return changed

    def auto_settings(self) -> list[Decision]:
        source = JointSource.by_role(self.data)["train"]
        rows = [row for row in islice(source.read(), FEW) if not isinstance(row, SkippedLine)]
        firsts = self._firsts(source, rows).values()
        return [*self.first.decided_by(firsts), *self.second.decided_by(row.second for row in rows)]

    def _firsts(self, source: Any, rows: Sequence[JointRow]) -> dict[str, Any]:
        """Return the distinct values of the first column; files are found relative to the list."""
        firsts = {row.name: row.first for row in rows}
        if isinstance(source, JointSource) and source.paths():
            return dict(zip(firsts, self.first.resolve_cells(source.path, list(firsts)), strict=True))
        return firsts

    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        steps = PrepareCache.of(self.data, cache, strict=strict)
        splits = steps.splits(JointSource.by_role(self.data))
        train = splits["train"]
        total = steps.about(train)
        vocabulary = steps.targets(targets, train.depends_on(), lambda: (row.target for row in train.good()), total)
        examples: dict[Role, Examples] = {}
        for role, split in splits.items():  # training data first: the inputs learn from it
            found = examples[role] = self._examples(steps, role, split, vocabulary)
            limit = f"data.max_length={self.data.max_length} tokens"
            steps.refuse_if_useless(found.counts, len(found), role, split, limit=limit)
        return examples

    def _examples(
        self, steps: PrepareCache, role: Role, split: Split[JointRow], vocabulary: Vocabulary | None
    ) -> JointExamples:
        """Return the rows of a split, read by both inputs."""
        items = list(with_progress(split.read(), f"reading {split}", total=steps.about(split)))
        rows = [item for item in items if not isinstance(item, SkippedLine)]
        firsts = self._firsts(split.source, rows)
        seconds = {row.second: row.second for row in rows}
        columns = self.first.column(firsts, role, steps), self.second.column(seconds, role, steps)
        most = self.data.max_length
        first, second = (most if kind == "text" else inf for kind in self.kinds)
        return JointExamples(
            str(split), items, columns, vocabulary, (first, second, most), split.sample, scored=role != "train"
        )

    def check(self, splits: dict[Role, Any], vocabulary: Vocabulary) -> CheckReport:
        first, second, target = self.data.columns.sides
        check = DataCheck(
            {role: one.listing() for role, one in splits.items()},
            noun="row", sides=(f"{first} and {second}", target), hashed=(first, second), max_bad=self.data.max_bad,
        )  # fmt: skip
        check.overlong(f"data.max_length={self.data.max_length} tokens", "left out of training")
        check.unknown(1, unknown_advice(self.data.tokenizer, vocabulary.size))
        return check.report({target: vocabulary.size})

    def test(self) -> tuple[list[Example], str]:
        """Return test examples; rows with the same input are one example with several correct texts."""
        split: Split[JointRow] = find_test(JointSource.by_role(self.data), self.data.test_share)
        with TemporaryDirectory(prefix="regard-test-", ignore_cleanup_errors=True) as folder:
            steps = PrepareCache.of(self.data, Path(folder), strict=False)
            examples = self._examples(steps, "test", split, None)
            examples.counts.refuse_if(f"data.test={split}", self.data.max_bad)
            found = examples.every()
        lost = examples.counts.bad
        return found, f"{lost} lines of {split} cannot be used: regard check lists them" if lost else ""

    def training_pairs(self) -> Iterator[tuple[str, str]]:
        """Return the second input and the target of every training row, for scores without the first input."""
        rows: Split[JointRow] = without_test(JointSource.by_role(self.data), self.data.test_share)
        return ((row.second, row.target) for row in rows.good())

    def save(self, folder: Path) -> None:
        self.first.save(folder)
        self.second.save(folder)

    def restore(self, folder: Path) -> None:
        self.first.restore(folder)
        self.second.restore(folder)


class JointInput(JointData):
    # --------------------------------------------------------------------------------------------------- single inputs
    def collate(self, items: Sequence[JointItem]) -> JointMemory:
        return JointMemory(
            self.first.collate([item.first for item in items]), self.second.collate([item.second for item in items])
        )

    def is_overlong(self, one: Any) -> bool:
        first, second = self._two(one)
        return self.first.is_overlong(first) or self.second.is_overlong(second)

    @property
    def limit(self) -> str:
        return self.first.limit or self.second.limit

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> JointEncoder:
        first, second = self.first.encoder(decoder), self.second.encoder(decoder)
        if not isinstance(decoder, TransformerSettings):
            return JointEncoder(first, second)
        blocks = transformer_blocks(decoder, decoder.joint_layers, decoder=False)  # pyright: ignore[reportAttributeAccessIssue]
        return JointEncoder(first, second, blocks, final_norm=final_norm(decoder))

    # ---------------------------------------------------------------------------------------------------- explanations
    def without_features(self, item: JointItem) -> JointItem:
        return JointItem(self.first.without_features(item.first), self.second.without_features(item.second))

    def parts(self, item: JointItem) -> list[int]:
        after = len(self.first.axis(item.first))
        return [*self.first.parts(item.first), *(after + place for place in self.second.parts(item.second))]

    def without(self, item: JointItem, parts: Collection[int]) -> JointItem:
        count = len(self.first.parts(item.first))
        first, second = {part for part in parts if part < count}, {part - count for part in parts if part >= count}
        return JointItem(
            self.first.without(item.first, first) if first else item.first,
            self.second.without(item.second, second) if second else item.second,
        )

    def vectors(self, encoder: nn.Module) -> nn.Module:
        """Return the parts of both inputs on the joint axis."""
        assert isinstance(encoder, JointEncoder)
        return encoder.vectors
