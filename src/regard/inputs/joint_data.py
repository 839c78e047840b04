"""Two inputs from a list or from the user; each reads its own column."""

from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from regard.data.check import DataCheck, unknown_advice
from regard.data.check_report import CheckReport
from regard.data.examples import Example, Examples
from regard.data.pairs import Bad
from regard.data.prepare import Steps
from regard.data.splits import Split, find_test, without_test
from regard.data.tables import Role
from regard.data.vocabulary import Targets, Vocabulary
from regard.inputs.base import Input
from regard.inputs.joint_examples import JointExamples, JointRow, JointSource
from regard.inputs.joint_reader import JointReader
from regard.settings.decisions import Decision
from regard.settings.recipe import Recipe

FEW = 50  # rows that are read to decide on sizes


class JointData(JointReader, Input):
    ahead: ClassVar[bool] = True

    def __init__(self, recipe: Recipe, first: Input, second: Input) -> None:
        super().__init__(recipe)
        self.first, self.second = first, second

    def with_recipe(self, recipe: Recipe) -> Any:
        changed = super().with_recipe(recipe)
        changed.first, changed.second = self.first.with_recipe(recipe), self.second.with_recipe(recipe)
        return changed

    def decided(self) -> list[Decision]:
        source = JointSource.by_role(self.data)["train"]
        rows = [row for row in islice(source.read(), FEW) if not isinstance(row, Bad)]
        firsts = self._firsts(source, rows).values()
        return [*self.first.decided_by(firsts), *self.second.decided_by(row.second for row in rows)]

    def _firsts(self, source: Any, rows: Sequence[JointRow]) -> dict[str, Any]:
        """Return the distinct values of the first column; files are found relative to the list."""
        firsts = {row.name: row.first for row in rows}
        if isinstance(source, JointSource) and source.paths():
            return dict(zip(firsts, self.first.in_list(source.path, list(firsts)), strict=True))
        return firsts

    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        steps = Steps.of(self.data, cache, strict=strict)
        splits = steps.splits(JointSource.by_role(self.data))
        train = splits["train"]
        vocabulary = steps.targets(targets, train.depends_on(), lambda: (row.target for row in train.good()))
        examples: dict[Role, Examples] = {}
        for role, split in splits.items():  # training data first: the inputs learn from it
            found = examples[role] = self._examples(steps, role, split, vocabulary)
            limit = f"data.max_length={self.data.max_length} tokens"
            steps.refuse_if_useless(found.counts, len(found), role, split, limit=limit)
        return examples

    def _examples(
        self, steps: Steps, role: Role, split: Split[JointRow], vocabulary: Vocabulary | None
    ) -> JointExamples:
        """Return the rows of a split, read by both inputs."""
        items = list(split.read())
        rows = [item for item in items if not isinstance(item, Bad)]
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
            steps = Steps.of(self.data, Path(folder), strict=False)
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
