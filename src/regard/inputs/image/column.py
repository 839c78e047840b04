"""Pictures that stand beside another input: one column of a list, each picture decoded once and kept on disk."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.data.files import Source
from regard.data.pairs import Bad
from regard.errors import CallError
from regard.inputs.column import Column
from regard.inputs.image.store import PictureExamples
from regard.inputs.media_source import Entry


@dataclass(frozen=True)
class NamedPictures(Source[Entry]):
    """Pictures by their names, each a word (`find` says where it is) or an array: what a store is made of."""

    values: Mapping[str, Any] = field(default_factory=dict)
    find: Callable[[str], Any] = str

    def read(self) -> Iterator[Entry | Bad]:
        for name, value in self.values.items():
            try:
                yield Entry(name, (), name, place=self.find(value) if isinstance(value, str) else value)
            except CallError as problem:
                yield Bad(name, 0, "not found", str(problem))

    def depends_on(self) -> list[Any]:
        return [[name, *self._content(value)] for name, value in self.values.items()]

    def _content(self, value: Any) -> list[Any]:
        if not isinstance(value, str):
            return [blake2b(np.ascontiguousarray(value).tobytes(), digest_size=10).hexdigest(), *value.shape]
        file = next((place for place in (Path(value), *Path(value).parents) if place.is_file()), None)  # or its tar
        return [value] if file is None else [value, file.stat().st_size, file.stat().st_mtime_ns]


class PictureColumn(Column):
    def __init__(self, names: list[str], examples: PictureExamples) -> None:
        """`names`: all that were asked for; `examples` has those of them that can be used."""
        self._examples = examples
        kept = {entry.name: row for row, entry in enumerate(examples.store.entries)}
        self._rows = np.array([kept.get(name, -1) for name in names], np.int64)
        why = {bad.file: bad.reason for bads in examples.counts.first.values() for bad in bads}  # of the first few
        self.bad = {
            number: why.get(name, f"{name}: this picture cannot be read")
            for number, name in enumerate(names)
            if name not in kept
        }

    def length(self, number: int) -> int:
        return self._examples.regions

    def source(self, numbers: NDArray[np.int64], rows: NDArray[np.int64], epoch: int) -> Tensor:
        return self._examples.load(self._rows[numbers], rows, epoch)

    def one(self, number: int) -> Any:
        return self._examples.example(int(self._rows[number])).input

    def hash(self, number: int) -> int:
        return int(self._examples.store.hashes[self._rows[number], 0])
