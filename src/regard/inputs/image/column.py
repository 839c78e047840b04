"""Pictures that stand beside another input: one column of a list, each picture decoded once and kept on disk."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.data.pairs import Bad
from regard.data.tables import Role
from regard.errors import CallError
from regard.inputs.column import Column
from regard.inputs.image.batches import Sight
from regard.inputs.image.examples import StoredPicture
from regard.inputs.image.sources import Entry, find_input
from regard.inputs.image.store import PictureStore


class NamedPictures(NamedTuple):
    """Pictures by their names, each a path or an array: what a store is made of."""

    values: Mapping[str, Any]
    role: Role

    def read(self) -> Iterator[Entry | Bad]:
        for name, value in self.values.items():
            try:
                yield Entry(name, find_input(value) if isinstance(value, str) else value, (), name)
            except CallError as problem:
                yield Bad(name, 0, "not found", str(problem))

    def key(self) -> list[Any]:
        return [[name, *self._content(value)] for name, value in self.values.items()]

    def _content(self, value: Any) -> list[Any]:
        if not isinstance(value, str):
            return [blake2b(np.ascontiguousarray(value).tobytes(), digest_size=10).hexdigest(), *value.shape]
        file = next((place for place in (Path(value), *Path(value).parents) if place.is_file()), None)  # or its tar
        return [value] if file is None else [value, file.stat().st_size, file.stat().st_mtime_ns]

    def __str__(self) -> str:
        return f"{len(self.values):,} pictures"


class PictureColumn(Column):
    def __init__(
        self, values: Mapping[str, Any], store: PictureStore, regions: int, sight: Callable[[], Sight]
    ) -> None:
        """`sight`: how batches see the pictures. It is asked for when the first batch is made."""
        self._store, self._regions, self._make_sight = store, regions, sight
        kept = {entry.name: row for row, entry in enumerate(store.entries)}
        self._rows = np.array([kept.get(name, -1) for name in values], np.int64)
        why = {bad.file: bad.reason for bads in store.read.first.values() for bad in bads}  # of the first few
        self.bad = {
            number: why.get(name, f"{name}: this picture cannot be read")
            for number, name in enumerate(values)
            if name not in kept
        }

    @cached_property
    def sight(self) -> Sight:
        return self._make_sight()

    def length(self, number: int) -> int:
        return self._regions

    def source(self, numbers: NDArray[np.int64], rows: NDArray[np.int64], epoch: int) -> Tensor:
        return self.sight(self._rows[numbers], rows, epoch)

    def one(self, number: int) -> StoredPicture:
        row = self._rows[number]
        pixels = np.ascontiguousarray(self._store.pixels[row].transpose(1, 2, 0))
        return StoredPicture(self._store.entries[row].name, pixels)

    def hash(self, number: int) -> int:
        return int(self._store.hashes[self._rows[number]])
