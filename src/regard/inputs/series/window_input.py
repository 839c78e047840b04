"""Windows of series as input: past steps that a model reads, and what is known of future steps."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.check_report import CheckReport
from regard.data.tables import Role
from regard.errors import CallError
from regard.inputs.series.input import SeriesInput, build_encoder
from regard.inputs.series.item import SeriesItem
from regard.inputs.series.panel import refuse_errors
from regard.inputs.series.prepare import PreparedWindows, other_windows, prepare_windows, windows_report
from regard.inputs.series.window_reader import WindowReader
from regard.inputs.series.windows import Windows


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
