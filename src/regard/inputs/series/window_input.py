"""Windows of series come in: the steps of the past that a model reads, and what is known of the steps ahead."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.inputs.series.input import build_encoder
from regard.inputs.series.item import SeriesItem
from regard.inputs.series.settings import PatchSettings
from regard.inputs.series.window_data import WindowData


class WindowInput(WindowData):
    """Its examples are windows, which know what there is to be said as well: whoever says it asks for `windows`."""

    # ------------------------------------------------------------------------------------------------------- one's own
    def parse(self, words: Sequence[str]) -> list[Any]:
        """Words on a command line are files, or corpus:NAME."""
        return [word if word.startswith("corpus:") else Path(word) for word in words]

    def read(self, one: Any) -> SeriesItem:
        """The last window of the first series."""
        return one if isinstance(one, SeriesItem) else self.windows_to_predict(one)[0].item(-1)

    def collate(self, items: Sequence[SeriesItem]) -> Tensor:
        return torch.from_numpy(np.stack([item.numbers for item in items]))

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
        numbers = item.numbers[:, column].astype(np.float64)
        return self.fitted.scaler.column(numbers, column + (self.layout.targets if self.layout.convert else 0))
