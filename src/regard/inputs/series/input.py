"""Series input: numbers with times, an encoder of steps, and a time axis."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.data.batches import Padded
from regard.data.check import DataCheck, Listing
from regard.data.check_report import CheckReport
from regard.data.examples import Example, Examples
from regard.data.files import places
from regard.data.tables import Role
from regard.data.vocabulary import Targets, Vocabulary
from regard.encoders.series import PatchEncoder, RecurrentSeriesEncoder, TransformerSeriesEncoder
from regard.errors import CallError, RegardError
from regard.inputs.base import Input, summary_of
from regard.inputs.series.item import Fitted, Scaler, SeriesItem, SeriesReader
from regard.inputs.series.labeled import LabeledSplit, SeriesExamples, held_out, read_labeled
from regard.inputs.series.panel import refuse_errors
from regard.inputs.series.prepare import PreparedWindows, other_windows, prepare_windows, windows_report
from regard.inputs.series.settings import PatchSettings, RecurrentSeriesSettings, TransformerSeriesSettings
from regard.inputs.series.windows import WindowReader, Windows
from regard.layers.transformer import Block
from regard.models.build import build_pooling, build_score

EncoderSettings = RecurrentSeriesSettings | TransformerSeriesSettings | PatchSettings
HELD_OUT: frozenset[Role] = frozenset({"valid", "test"})  # parts that may be split from the training series
SeriesEncoder = RecurrentSeriesEncoder | TransformerSeriesEncoder | PatchEncoder


class SeriesInput(SeriesReader, Input):
    """Whole series of any length, one example each. `WindowInput` cuts windows from long ones."""

    kind: ClassVar[str] = "table"
    array_dims: ClassVar[int] = 2

    # ------------------------------------------------------------------------------------------------------- the files
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        data, found, there = self.data, dict[Role, LabeledSplit](), places(self.data)
        for role, where in there.items():
            if role != "test" or not strict:
                found[role] = read_labeled(where, role, data, found["train"].roles if found else None)
        train = found["train"]
        parts = held_out(train, data, HELD_OUT - there.keys())
        found |= {role: some for role, some in parts.items() if role != "test" or not strict}
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
        there = places(self.data)
        where = there.get("test", there["train"])
        found = read_labeled(where, "test" if "test" in there else "train", self.data, self.fitted.roles)
        if "test" not in there:
            parts = held_out(found, self.data, HELD_OUT - there.keys())
            if "test" not in parts:
                share = f"data.test_share={self.data.test_share:g}"
                raise RegardError(f"{where}: nothing was held out by {share}; raise it, or give data.test")
            found = parts["test"]
        refuse_errors(found.panel.findings)
        note = f"{found.counts.bad} series of {where} without a label" if found.counts.bad else ""
        scaler = self.fitted.scaler
        return [Example(SeriesItem.of(one, scaler), (one.label,), one.place) for one in found.panel.series], note

    def save(self, folder: Path) -> None:
        self.fitted.save(folder)

    def collate(self, items: Sequence[SeriesItem]) -> Any:
        return Padded.of([torch.from_numpy(item.numbers) for item in items])

    def plain(self, one: Any) -> Float[np.ndarray, " D"]:
        return summary_of(self.read(one).numbers)

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        return build_encoder(self.settings, len(self.fitted.roles.columns))

    def pooling(self, width: int) -> nn.Module:
        return build_pooling(self.settings.pooling, self.settings.score, width)

    # ---------------------------------------------------------------------------------------------------- explanations
    def without(self, item: SeriesItem, parts: Collection[int]) -> SeriesItem:
        """Return the item with masked steps: each column has its mean over the series."""
        chosen = np.zeros(len(self.firsts(len(item.numbers))), bool)
        chosen[list(parts)] = True
        covered = chosen[self._owners(len(item.numbers))][:, None]
        return item._replace(numbers=np.where(covered, item.numbers.mean(axis=0), item.numbers))

    def vectors(self, encoder: nn.Module) -> nn.Module:
        return encoder.numbers  # pyright: ignore[reportReturnType] (an nn.Identity of every encoder of series)

    def gather(self, item: SeriesItem, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        steps = np.concatenate(products).sum(-1)  # N S
        return np.add.reduceat(np.pad(steps, ((0, 0), (0, 1))), self.firsts(steps.shape[1]), axis=1)

    def _owners(self, steps: int) -> Int[np.ndarray, " S"]:
        """Return the vector of each step: from its first step to the first step of the next vector."""
        return np.searchsorted(self.firsts(steps), np.arange(steps), side="right") - 1


def build_encoder(s: EncoderSettings, columns: int, look_back: int | None = None) -> SeriesEncoder:
    """Build the encoder for series of this number of columns. `look_back`: common length of all windows, required for
    patches.
    """
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


# Windows of series as input: past steps that a model reads, and what is known of future steps.


class WindowInput(WindowReader, SeriesInput):
    """Input of windows of series; `prepared_windows` returns those of each part of the data."""

    # ------------------------------------------------------------------------------------------------------- the files
    def prepared_windows(self, *, strict: bool = True) -> dict[Role, Windows]:
        """Return the windows of train, valid and test, with the roles of the columns and their scales."""
        prepared = prepare_windows(self.data, strict=strict)
        self._fitted = prepared.fitted
        return prepared.windows

    def report(self, windows: dict[Role, Windows]) -> CheckReport:
        return windows_report(PreparedWindows(self.fitted, windows), self.season)

    def test_windows(self) -> Windows:
        """Return the windows of the test part, or of a separate test table."""
        if self.data.test is None:
            windows = prepare_windows(self.data).windows["test"]
        else:
            windows = other_windows(self.data.test, self.fitted, self.data, "test")
            refuse_errors(windows.panel.findings)
        if not len(windows):
            raise CallError("no complete test window; set data.test=FILE, or a test part in data.split")
        return windows

    @property
    def has_test_data(self) -> bool:
        return True  # data.split reserves a part of the table

    @property
    def season(self) -> int:
        """Number of steps in a season, which baselines repeat."""
        return self.data.season or self.fitted.step.season()

    # ------------------------------------------------------------------------------------------------------- the model
    def collate(self, items: Sequence[SeriesItem]) -> Tensor:
        return torch.from_numpy(np.stack([item.numbers for item in items]))

    def encoder(self, decoder: Any = None) -> nn.Module:
        return build_encoder(self.settings, self.layout.inputs, self.layout.look_back)
