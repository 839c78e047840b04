"""Series come in: numbers that belong to times, an encoder of steps, and a clock to look along."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn

from regard.corpora import PREFIX
from regard.data.batches import Padded
from regard.data.check import DataCheck, Listing
from regard.data.check_report import CheckReport
from regard.data.examples import Example, Examples
from regard.data.files import places
from regard.data.tables import Role
from regard.data.vocabulary import Targets, Vocabulary
from regard.encoders.series import PatchEncoder, RecurrentSeriesEncoder, TransformerSeriesEncoder
from regard.errors import CallError
from regard.inputs.base import Input
from regard.inputs.series.labeled import LabeledSplit, SeriesExamples, held_out, one_of_corpus, read_labeled
from regard.inputs.series.panel import load_panel, refuse_errors
from regard.inputs.series.prepare import Fitted
from regard.inputs.series.settings import PatchSettings, RecurrentSeriesSettings, TransformerSeriesSettings
from regard.inputs.series.table import open_table
from regard.inputs.series.times import labels
from regard.inputs.series.windows import Scaler, SeriesItem
from regard.layers.transformer import Block
from regard.look.axis import Axis, axis
from regard.parts import build_pooling, build_score
from regard.settings.recipe import Recipe

EncoderSettings = RecurrentSeriesSettings | TransformerSeriesSettings | PatchSettings
SeriesEncoder = RecurrentSeriesEncoder | TransformerSeriesEncoder | PatchEncoder


class SeriesInput(Input):
    """Whole series of any length, one example each. `WindowInput` cuts windows from long ones."""

    kind: ClassVar[str] = "table"
    array_dims: ClassVar[int] = 2

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        self._fitted: Fitted | None = None

    # ------------------------------------------------------------------------------------------------------- the files
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        data, found = self.data, dict[Role, LabeledSplit]()
        for role, where in places(data).items():
            if role != "test" or not strict:
                found[role] = read_labeled(where, role, data, found["train"].roles if found else None)
        train = found["train"]
        if "valid" not in found:
            found |= held_out(train, data)
        if strict:
            refuse_errors(one for some in found.values() for one in some.panel.findings)
        scaler = Scaler.fit(np.concatenate([one.values for one in found["train"].panel.series]), data.scale)
        self._fitted = Fitted(train.roles, scaler, train.panel.step, train.panel.dates)
        vocabulary = targets.learn(one.label for one in found["train"].panel.series)
        return {role: SeriesExamples(some, scaler, vocabulary, self) for role, some in found.items()}

    def check(self, splits: dict[Role, Any], vocabulary: Vocabulary) -> CheckReport:
        listings: dict[Role, Listing] = {role: one.listing() for role, one in splits.items()}
        check = DataCheck(listings, noun="series", sides=("series", "label"), max_bad=self.data.max_bad)
        for role, one in splits.items():
            check.findings += one.split.panel.findings
            if len(one.unknown):
                first = one.split.panel.series[one.unknown[0]].label
                what = f"with a label that training does not have, such as {first!r}"
                check.at("warning", role, one.unknown, what, "they count as wrong")
        return check.report({"label": vocabulary.size})

    def test(self) -> tuple[list[Example], str]:
        where = places(self.data)["test"]
        found = read_labeled(where, "test", self.data, self.fitted.roles)
        refuse_errors(found.panel.findings)
        note = f"{found.counts.bad} series of {where} without a label" if found.counts.bad else ""
        scaler = self.fitted.scaler
        return [Example(SeriesItem.of(one, scaler), (one.label,), one.place) for one in found.panel.series], note

    def save(self, folder: Path) -> None:
        self.fitted.save(folder)

    def restore(self, folder: Path) -> None:
        self._fitted = Fitted.load(folder)

    @property
    def fitted(self) -> Fitted:
        if self._fitted is None:
            raise RuntimeError("there are no scales yet: prepare or restore comes first")
        return self._fitted

    # ------------------------------------------------------------------------------------------------------- one's own
    def parse(self, words: Sequence[str]) -> list[Any]:
        """Tables by path, with one series or several in each; or a row of a corpus, corpus:shapes-of-series#7."""
        return [item for word in words for item in self._items(word if word.startswith(PREFIX) else Path(word))]

    def read(self, one: Any) -> SeriesItem:
        """A table with one series in it: a pathlib.Path, the text of a CSV, columns by name, a DataFrame, an array."""
        if isinstance(one, SeriesItem):
            return one
        found = self._items(one)
        if len(found) > 1:
            names = ", ".join(item.name for item in found[:3])
            raise CallError(f"{self.name(one)} holds {len(found)} series ({names} …): give one at a time")
        return found[0]

    def _items(self, table: Any) -> list[SeriesItem]:
        if isinstance(table, str) and table.startswith(PREFIX):
            return [SeriesItem.of(one_of_corpus(table), self.fitted.scaler)]
        self.refuse_words(table)
        roles = self.fitted.roles
        names = open_table(table, roles=roles)[1]
        roles = replace(roles, label=None, id=roles.id if roles.id in names else None)
        panel = load_panel(table, self.timed(roles, names), self.data, "test", field="")
        refuse_errors(panel.findings)
        whose = str(table) if isinstance(table, Path) else ""
        named = (replace(one, name="#".join(filter(None, (whose, one.name)))) for one in panel.series)
        return [SeriesItem.of(one, self.fitted.scaler) for one in named]

    def refuse_words(self, table: Any) -> None:
        """A word is not taken for the name of a file: who asks a service must not read the files of its machine."""
        if isinstance(table, str) and "\n" not in table and not table.startswith(PREFIX):
            raise CallError(f"{table!r}: give a table as a pathlib.Path, as the text of a CSV, or as columns by name")

    def timed(self, roles: Any, names: Sequence[str]) -> Any:
        """The same roles; a table without times is taken line by line, if no date is asked for."""
        if roles.time is None or roles.time in names or self.fitted.dates:
            return roles
        return replace(roles, time=None)

    def name(self, one: Any) -> str:
        if isinstance(one, SeriesItem):
            return one.name or "the given series"
        if isinstance(one, str | Path):
            return "the given text" if "\n" in str(one) else str(one)
        return f"the given {type(one).__name__}"

    def length(self, item: SeriesItem) -> int:
        return len(item.numbers)

    def collate(self, items: Sequence[SeriesItem]) -> Any:
        return Padded.of([item.numbers for item in items])

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


def build_encoder(s: EncoderSettings, columns: int, look_back: int | None = None) -> SeriesEncoder:
    """For series of so many columns. `look_back`: all windows have this length, which patches have to know."""
    if isinstance(s, RecurrentSeriesSettings):
        return RecurrentSeriesEncoder(
            columns, s.width, cell=s.cell, depth=s.encoder_layers, bidirectional=s.bidirectional, dropout=s.dropout
        )
    if isinstance(s, TransformerSeriesSettings):
        blocks = [series_block(s, cross=False) for _ in range(s.encoder_layers)]
        return TransformerSeriesEncoder(columns, s.width, blocks, dropout=s.dropout)
    if look_back is None:
        raise ValueError("patches need windows of one length: look_back")
    blocks = [
        Block(s.width, s.heads, s.feed_forward, activation="gelu", dropout=s.dropout, hidden_dropout=s.dropout)
        for _ in range(s.layers)
    ]
    return PatchEncoder(look_back, s.patch, s.stride, s.width, blocks, dropout=s.dropout)


def series_block(s: TransformerSeriesSettings, *, cross: bool) -> Block:
    return Block(
        s.width, s.heads, s.feed_forward, cross=cross, activation="gelu", dropout=s.dropout,
        score=lambda width: build_score(s.score, width, width, width),
    )  # fmt: skip
