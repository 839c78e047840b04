"""The past of a series comes in: a window of it, and what is known of the steps ahead."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.check_report import CheckReport
from regard.data.tables import Role
from regard.errors import CallError
from regard.inputs.series.asked import asked_windows
from regard.inputs.series.build import build_encoder
from regard.inputs.series.files import Table
from regard.inputs.series.input import SeriesInput
from regard.inputs.series.prepare import PreparedWindows, at, other_windows, prepare_windows, windows_report
from regard.inputs.series.settings import PatchSettings
from regard.inputs.series.windows import Layout, SeriesItem, Windows


class PastInput(SeriesInput):
    """Its examples are windows, which know what there is to be said as well: whoever says it asks for `windows`."""

    def windows(self, *, strict: bool = True) -> dict[Role, Windows]:
        """Those of train, valid and test, and with them the parts that columns play, and their scales."""
        prepared = prepare_windows(self.data, strict=strict)
        self._fitted = prepared.fitted
        return prepared.windows

    def report(self, windows: dict[Role, Windows]) -> CheckReport:
        return windows_report(PreparedWindows(self.fitted, windows), self.season)

    def test_windows(self) -> Windows:
        """Those of the test part, or of a table of its own."""
        if self.data.test is None:
            windows = prepare_windows(self.data).windows["test"]
        else:
            windows = other_windows(at(self.data.test), self.fitted, self.data, "test")
            CheckReport({}, {}, list(windows.panel.findings)).refuse_if_errors()
        if not len(windows):
            raise CallError("there is not one window to test on: give data.test=FILE, or a test part in data.split")
        return windows

    @property
    def has_test_data(self) -> bool:
        return True  # a part of the table is for it

    # ------------------------------------------------------------------------------------------------------- one's own
    def parse(self, words: Sequence[str]) -> list[Any]:
        """Words on a command line are files, or corpus:NAME."""
        return [word if word.startswith("corpus:") else Path(word) for word in words]

    def asked(self, table: Table, series: str | None = None, at: str | None = None) -> list[Windows]:
        """For each series of a table (a Path, the text of a CSV, or columns by name), the windows to be predicted."""
        return asked_windows(table, self.fitted, self.layout, self.data, series, at)

    def read(self, one: Any) -> SeriesItem:
        """The last window of the first series."""
        return one if isinstance(one, SeriesItem) else self.asked(one)[0].item(-1)

    def collate(self, items: Sequence[SeriesItem]) -> Tensor:
        return torch.stack([item.numbers for item in items])

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        return build_encoder(self.settings, self.layout.inputs, self.layout.look_back)

    # --------------------------------------------------------------------------------------------------------- looking
    def firsts(self, steps: int) -> list[int]:
        """Patches begin a stride apart; the last may be nothing but the last value, repeated."""
        s = self.settings
        if not isinstance(s, PatchSettings):
            return super().firsts(steps)
        return [min(place * s.stride, steps) for place in range((steps - s.patch) // s.stride + 2)]

    def restored(self, item: SeriesItem, column: int) -> Any:
        """The targets' own past is not read where they are what is sought."""
        numbers = item.numbers[:, column].double().numpy()
        return self.fitted.scaler.column(numbers, column + (self.layout.targets if self.layout.convert else 0))

    # ----------------------------------------------------------------------------------------------------------- parts
    @property
    def layout(self) -> Layout:
        return Layout.of(self.data, len(self.fitted.roles.targets))

    @property
    def season(self) -> int:
        """Steps of the season that baselines repeat."""
        return self.data.season or self.fitted.step.season()
