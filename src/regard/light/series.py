"""Series and their windows for graphs, read and scaled as in training (`inputs/series/item.py`)."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from regard.inputs.series.item import SeriesItem, SeriesReader
from regard.inputs.series.window_reader import WindowReader
from regard.light.description import Description
from regard.light.inputs import LightInput, padded
from regard.light.session import Arrays


class LightSeries(SeriesReader, LightInput):
    kind: ClassVar[str] = "table"
    array_dims: ClassVar[int] = 2

    def __init__(self, about: Description) -> None:
        super().__init__(about)
        self.restore(about.folder)

    def collate(self, items: Sequence[SeriesItem]) -> Arrays:
        return padded([item.numbers for item in items])


class LightWindows(WindowReader, LightSeries):
    def collate(self, items: Sequence[SeriesItem]) -> Arrays:
        sides = {"past": [item.numbers for item in items], "known": [item.known for item in items]}
        return {name: np.stack(side).astype(np.float32) for name, side in sides.items()}
