"""Two inputs come in at once: a picture and a question, or whatever two the row of `jobs.py` names.

    a list of three columns → first: encoder → vectors ┐
                              second: encoder → vectors ┴→ blocks over both → one Memory

Each of the two is an `Input` of its own and knows nothing of the other. What one of them has to do for it is to read a
column (`Input.column`); all else is what any input does. In a run they share one folder, so two that keep a file of the
same name there (two texts) cannot stand beside each other.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

from torch import nn

from regard.corpora.pictures import PREFIX
from regard.data.check_report import CheckReport
from regard.data.examples import Example, Examples
from regard.data.joint_source import JointSource
from regard.data.pairs import Bad
from regard.data.tables import Role
from regard.encoders.joint import Joint, JointEncoder
from regard.errors import CallError, RegardError
from regard.inputs.base import Input, Targets, Vocabulary
from regard.inputs.joint_check import check_joint
from regard.inputs.joint_examples import JointExamples, JointTable
from regard.look.axis import Axis, beside
from regard.parts import final_norm, transformer_blocks
from regard.settings.model import TransformerSettings
from regard.settings.recipe import Recipe


class JointItem(NamedTuple):
    first: Any
    second: Any


class JointInput(Input):
    ahead: ClassVar[bool] = True

    def __init__(self, recipe: Recipe, first: Input, second: Input) -> None:
        super().__init__(recipe)
        self.first, self.second = first, second

    def with_recipe(self, recipe: Recipe) -> "JointInput":
        changed = super().with_recipe(recipe)
        changed.first, changed.second = self.first.with_recipe(recipe), self.second.with_recipe(recipe)
        return changed

    @property
    def kinds(self) -> tuple[str, ...]:
        return (*self.first.kinds, *self.second.kinds)

    # ------------------------------------------------------------------------------------------------------- the files
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        cache = Path(self.data.cache).expanduser() if self.data.cache else cache
        sources = self._sources()
        if strict:  # test data is read when it is asked for
            sources.pop("test", None)
        tables: dict[Role, JointTable] = {role: self._table(source, cache) for role, source in sources.items()}
        vocabulary = targets.learn([row.target for row in tables["train"].rows])
        splits: dict[Role, Examples] = {}
        for role, table in tables.items():
            name = f"data.{role}={table.name}"
            if sources[role].part == "held out" and not table.rows:
                raise RegardError(f"{name}: nothing was held out by data.valid_share; raise it, or give data.valid")
            if strict or not table.rows:
                table.counts.refuse_if(name, self.data.max_bad)
            splits[role] = JointExamples(table, vocabulary, self.data.max_length)
        return splits

    def _sources(self) -> dict[Role, JointSource]:
        data = self.data
        own = data.train.startswith(PREFIX) or data.split is not None
        places: dict[Role, str | None] = {"train": data.train, "valid": data.valid, "test": data.test}
        found: dict[Role, JointSource] = {}
        for role, where in places.items():
            where = where or (data.train if own else None)
            if where is not None:
                found[role] = JointSource(where, role, data.columns, data.header, data.format, data.split)
        if "valid" not in found:
            found["train"], found["valid"] = found["train"].held_out(data.valid_share, data.valid_most)
        return {role: found[role] for role in places if role in found}

    def _table(self, source: JointSource, cache: Path) -> JointTable:
        """The rows of a source, read by both inputs: of the training data first."""
        items = list(source.read())
        rows = [item for item in items if not isinstance(item, Bad)]
        file, firsts = source.file, {row.name: row.first for row in rows}
        if file is not None:
            firsts = dict(zip(firsts, self.first.in_list(file, list(firsts)), strict=True))
        seconds = {row.second: row.second for row in rows}
        columns = (self.first.column(firsts, cache, source.role), self.second.column(seconds, cache, source.role))
        return JointTable(str(source), items, columns, self.kinds)

    def check(self, splits: dict[Role, Examples], vocabulary: Vocabulary) -> CheckReport:
        found: dict[Role, JointExamples] = {r: one for r, one in splits.items() if isinstance(one, JointExamples)}
        return check_joint(found, [name for name, _ in self.data.columns], self.data, vocabulary.size)

    def test(self) -> tuple[list[Example], str]:
        """Rows with the same input are one example with several right texts."""
        source = self._sources().get("test")
        if source is None:
            raise self.no_test_data()
        with TemporaryDirectory(prefix="regard-joint-") as folder:
            table = self._table(source, Path(self.data.cache).expanduser() if self.data.cache else Path(folder))
            table.counts.refuse_if(f"data.test={source}", self.data.max_bad)
            examples = table.examples(range(len(table.rows)))
        lost = table.counts.bad
        return examples, f"{lost} lines of {source.where} that could not be used (see regard check)" if lost else ""

    def training_pairs(self) -> Iterator[tuple[str, str]]:
        """The second input and the target of every training row, for what can be said without the first."""
        return ((row.second, row.target) for row in self._sources()["train"].read() if not isinstance(row, Bad))

    def save(self, folder: Path) -> None:
        self.first.save(folder)
        self.second.save(folder)

    def restore(self, folder: Path) -> None:
        self.first.restore(folder)
        self.second.restore(folder)

    # ------------------------------------------------------------------------------------------------------- one's own
    def parse(self, words: Sequence[str]) -> list[tuple[Any, Any]]:
        return [self._about(word.partition("\t")) for word in words if word.strip()]

    def _about(self, word: tuple[str, str, str]) -> tuple[Any, Any]:
        first, apart, second = word
        found = [*self.first.parse([first]), *self.second.parse([second])]
        if not apart or len(found) != 2:
            raise self._no_two("".join(word))
        return found[0], found[1]

    def about(self, words: Sequence[str], file: str) -> list[tuple[Any, Any]]:
        (first,) = self.first.parse([file])
        return [(first, word) for word in self.second.parse(words)]

    def _two(self, one: Any) -> tuple[Any, Any]:
        """Of a pair, a mapping of both by their names, or a text with a tab between."""
        if isinstance(one, str):
            return self._about(one.partition("\t"))
        names = [name for name, _ in self.data.columns[:2]]
        if isinstance(one, Mapping) and set(one) == set(names):
            return one[names[0]], one[names[1]]
        if isinstance(one, tuple | list) and len(one) == 2:
            return one[0], one[1]
        raise self._no_two(one)

    def _no_two(self, one: Any) -> CallError:
        a, b = (name for name, _ in self.data.columns[:2])
        shown = repr(one) if isinstance(one, str) else f"an input of type {type(one).__name__}"
        return CallError(
            f'{shown} is not an {a} and a {b}: on the command line, give "{b}" --about FILE, or {a}<TAB>{b}; '
            f'in Python, {{"{a}": ..., "{b}": ...}}'
        )

    def read(self, one: Any) -> JointItem:
        if isinstance(one, JointItem):
            return one
        first, second = self._two(one)
        return JointItem(self.first.read(first), self.second.read(second))

    def name(self, one: Any) -> str:
        first, second = self._two(one)
        return f"{self.first.name(first)}: {self.second.name(second)}"

    def length(self, item: JointItem) -> int:
        """0 if there is nothing in one of the two."""
        first, second = self.first.length(item.first), self.second.length(item.second)
        return first + second if first and second else 0

    def collate(self, items: Sequence[JointItem]) -> Joint:
        return Joint(
            self.first.collate([item.first for item in items]), self.second.collate([item.second for item in items])
        )

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> JointEncoder:
        first, second = self.first.encoder(decoder), self.second.encoder(decoder)
        if not isinstance(decoder, TransformerSettings):
            return JointEncoder(first, second)
        blocks = transformer_blocks(decoder, decoder.joint_layers, decoder=False)  # pyright: ignore[reportAttributeAccessIssue]
        return JointEncoder(first, second, blocks, final_norm=final_norm(decoder))

    # --------------------------------------------------------------------------------------------------------- looking
    def axis(self, item: JointItem) -> Axis:
        return beside(self.first.axis(item.first), self.second.axis(item.second))

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
        """Those of both, where they meet."""
        assert isinstance(encoder, JointEncoder)
        return encoder.vectors

    @property
    def data(self) -> Any:
        return self.recipe.data
