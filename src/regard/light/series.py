"""Series, for graphs: read and scaled as for training (`inputs/series/item.py`)."""

from collections.abc import Sequence
from typing import ClassVar

from regard.inputs.series.item import SeriesItem, SeriesReader
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
