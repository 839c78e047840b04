"""Series come in: numbers that belong to times, an encoder of steps, and a clock to look along."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.data.check_report import CheckReport
from regard.data.examples import Example, Examples
from regard.data.tables import Role
from regard.errors import CallError
from regard.inputs.base import Input, Targets, Vocabulary
from regard.inputs.series.build import build_encoder
from regard.inputs.series.examples import SeriesExamples, labeled_report
from regard.inputs.series.files import open_table
from regard.inputs.series.labeled import (
    LabeledSeries,
    LabeledTable,
    location,
    one_of_corpus,
    read_labeled,
    with_held_out,
)
from regard.inputs.series.prepare import Fitted, load_panel
from regard.inputs.series.settings import LabeledSeriesSettings
from regard.inputs.series.times import labels
from regard.inputs.series.windows import Scaler, SeriesItem
from regard.look.axis import Axis, axis
from regard.parts import build_pooling
from regard.settings.recipe import Recipe


@dataclass(frozen=True)
class PaddedSeries:
    """B series of unequal length: what `encoders.series.Steps` asks for."""

    values: Float[Tensor, "B S C"]
    lengths: Int[Tensor, " B"]

    @classmethod
    def of(cls, series: Sequence[Float[Tensor, "_ C"]]) -> "PaddedSeries":
        return cls(
            nn.utils.rnn.pad_sequence(list(series), batch_first=True), torch.tensor([len(one) for one in series])
        )

    def to(self, device: torch.device | str) -> "PaddedSeries":
        return PaddedSeries(self.values.to(device, non_blocking=True), self.lengths.to(device, non_blocking=True))


class SeriesInput(Input):
    """Whole series of any length, one example each. `PastInput` cuts windows from long ones."""

    kind: ClassVar[str] = "table"

    def __init__(self, recipe: Recipe, section: Callable[[Any], Any] = lambda recipe: recipe.model) -> None:
        """`section`: the part of a recipe that has the sizes of the encoder."""
        super().__init__(recipe)
        self._section = section
        self._fitted: Fitted | None = None

    # ------------------------------------------------------------------------------------------------------- the files
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        data: LabeledSeriesSettings = self.data
        train = read_labeled(data.train, "train", data)
        found: dict[Role, LabeledTable] = {"train": train}
        roles: tuple[Role, ...] = ("valid", "test")
        for role in roles:
            where = location(data, role)
            if where is not None and (role == "valid" or not strict):
                found[role] = read_labeled(where, role, data, train.roles)
        if "valid" not in found:
            found["train"], found["valid"] = with_held_out(train, data)
        if strict:
            CheckReport({}, {}, [one for some in found.values() for one in some.findings]).refuse_if_errors()
        scaler = Scaler.fit(np.concatenate([one.values for one in found["train"].series]), data.scale)
        self._fitted = Fitted(train.roles, scaler, train.step, train.dates)
        vocabulary = targets.learn(one.label for one in found["train"].series)
        return {role: SeriesExamples(some, scaler, vocabulary, PaddedSeries.of) for role, some in found.items()}

    def check(self, splits: dict[Role, Examples], vocabulary: Vocabulary) -> CheckReport:
        return labeled_report(
            {role: one for role, one in splits.items() if isinstance(one, SeriesExamples)}, vocabulary
        )

    @property
    def has_test_data(self) -> bool:
        return location(self.data, "test") is not None

    def test(self) -> tuple[list[Example], str]:
        where = location(self.data, "test")
        if where is None:
            raise self.no_test_data()
        found = read_labeled(where, "test", self.data, self.fitted.roles)
        CheckReport({}, {}, list(found.findings)).refuse_if_errors()
        note = f"{found.counts.bad} series of {where} without a label" if found.counts.bad else ""
        return [Example(self._item(one), (one.label,), one.place) for one in found.series], note

    def save(self, folder: Path) -> None:
        self.fitted.save(folder)

    def restore(self, folder: Path) -> None:
        self._fitted = Fitted.load(folder)

    # ------------------------------------------------------------------------------------------------------- one's own
    def parse(self, words: Sequence[str]) -> list[Any]:
        """Tables by path, with one series or several in each; or a row of a corpus, corpus:shapes-of-series#7."""
        return [item for word in words for item in self._items(word if word.startswith("corpus:") else Path(word))]

    def read(self, one: Any) -> SeriesItem:
        """A table with one series in it: a pathlib.Path, the text of a CSV, or columns by name."""
        if isinstance(one, SeriesItem):
            return one
        found = self._items(one)
        if len(found) > 1:
            names = ", ".join(item.name for item in found[:3])
            raise CallError(f"{self.name(one)} holds {len(found)} series ({names} …): give one at a time")
        return found[0]

    def _items(self, table: Any) -> list[SeriesItem]:
        if isinstance(table, str) and table.startswith("corpus:"):
            return [self._item(one_of_corpus(table))]
        if isinstance(table, str) and "\n" not in table:
            raise CallError(f"{table!r}: give a series as a pathlib.Path, as the text of a CSV, or as columns by name")
        names = open_table(table, "test")[1]
        roles = self.fitted.roles
        roles = replace(roles, label=None, id=roles.id if roles.id in names else None)
        panel = load_panel(table, roles, self.data, "test")
        CheckReport({}, {}, list(panel.findings)).refuse_if_errors()
        whose = str(table) if isinstance(table, Path) else ""
        return [
            self._item(LabeledSeries("#".join(filter(None, (whose, one.name))), one.times, one.values, ""))
            for one in panel.series
        ]

    def _item(self, one: LabeledSeries) -> SeriesItem:
        return one.item(self.fitted.scaler)

    def name(self, one: Any) -> str:
        if isinstance(one, SeriesItem):
            return one.name or "the given series"
        return "the given columns" if isinstance(one, Mapping) else "the given text" if "\n" in str(one) else str(one)

    def length(self, item: SeriesItem) -> int:
        return len(item.numbers)

    def collate(self, items: Sequence[SeriesItem]) -> Any:
        return PaddedSeries.of([item.numbers for item in items])

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        return build_encoder(self.settings, len(self.fitted.roles.columns))

    def pooling(self, width: int) -> nn.Module:
        return build_pooling(self.settings.pooling, self.settings.score, width)

    # --------------------------------------------------------------------------------------------------------- looking
    def axis(self, item: SeriesItem, column: int | None = None) -> Axis:
        """Steps by their times, along the clock of the table. Under them `column`, as the table has it; by default all
        columns: one as it is, several as bands of what the model is given, since they have no unit in common."""
        step, names = self.fitted.step, labels(item.times, self.fitted.dates)
        size, unit = step.counted()
        if step.unit == "number":
            clock, unit = item.times, self.fitted.roles.time or "lines"
        else:
            clock, unit = size * np.arange(len(names)), f"{unit} from {names[0]}"
        until = float(clock[-1]) + size
        firsts = self.firsts(len(names))
        begins = [float(clock[place]) if place < len(names) else until for place in firsts]
        column = 0 if column is None and item.numbers.shape[1] == 1 else column
        signal = item.numbers.T.numpy() if column is None else self.restored(item, column)
        shown = [names[min(place, len(names) - 1)] for place in firsts]
        return axis(shown, times=begins, until=until, unit=unit, signal=signal)

    def firsts(self, steps: int) -> list[int]:
        """The first step of each vector that so many steps become."""
        return list(range(steps))

    def restored(self, item: SeriesItem, column: int) -> Float[np.ndarray, " S"]:
        """A column of what is read, in the units of the table."""
        return self.fitted.scaler.column(item.numbers[:, column].double().numpy(), column)

    def without(self, item: SeriesItem, parts: Collection[int]) -> SeriesItem:
        """Steps say what the series says on average, in every column."""
        covered = torch.from_numpy(np.isin(self._owners(len(item.numbers)), sorted(parts))).unsqueeze(1)
        return item._replace(numbers=torch.where(covered, item.numbers.mean(0), item.numbers))

    def vectors(self, encoder: nn.Module) -> nn.Module:
        return encoder.numbers  # pyright: ignore[reportReturnType] (an nn.Identity of every encoder of series)

    def gather(self, item: SeriesItem, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        steps = np.concatenate(products).sum(-1)  # N S
        return np.add.reduceat(np.pad(steps, ((0, 0), (0, 1))), self.firsts(steps.shape[1]), axis=1)

    def _owners(self, steps: int) -> Int[np.ndarray, " S"]:
        """Which vector each step belongs to: steps between the first of one and of the next."""
        return np.searchsorted(self.firsts(steps), np.arange(steps), side="right") - 1

    # ----------------------------------------------------------------------------------------------------------- parts
    @property
    def data(self) -> Any:
        return self.recipe.data  # pyright: ignore[reportAttributeAccessIssue] (every recipe of a job has it)

    @property
    def settings(self) -> Any:
        return self._section(self.recipe)

    @property
    def fitted(self) -> Fitted:
        if self._fitted is None:
            raise RuntimeError("there are no scales yet: prepare or restore comes first")
        return self._fitted
