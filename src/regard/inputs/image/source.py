"""Source of the user's pictures: files (`media_source.py`) and arrays (`arrays.py`).

data.train=pictures.npz           arrays x_train, y_train, x_test, y_test (and classes: the names of the labels)
data.train=MNIST/raw              train-images-idx3-ubyte.gz and the like; data_batch_1.bin of CIFAR
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np

from regard.corpora.shapes import load_pictures
from regard.data.files import FileSource
from regard.data.pairs import SkippedLine
from regard.data.tables import Role
from regard.errors import CallError
from regard.inputs.image.arrays import is_arrays, load_arrays, of_role
from regard.inputs.image.decode import pillow
from regard.inputs.media_files import Entry, MediaSource

UNREADABLE = frozenset(
    (".heic", ".heif", ".avif", ".jxl", ".svg", ".raw")
)  # not readable by Pillow alone: reported as bad


@cache
def _endings() -> frozenset[str]:
    return frozenset(pillow().registered_extensions()) | UNREADABLE


@dataclass(frozen=True)
class PictureSource(MediaSource):
    what: ClassVar[str] = "picture"

    @classmethod
    def is_one(cls, name: str) -> bool:
        return PurePosixPath(name).suffix.lower() in _endings()

    @classmethod
    def may_be_one(cls, name: str) -> bool:
        """Whether a file may be a picture; in data sets, names without an ending are common."""
        return cls.is_one(name) or not PurePosixPath(name).suffix

    def corpus(self) -> Iterator[Entry]:
        for row, one in enumerate(load_pictures(self.where, self.role)):
            yield Entry(f"{self.where}#{row}", one.texts, self.where, row + 1, one.nouns, one.image)

    def _all(self) -> Iterable[Entry | SkippedLine]:
        path = Path(self.where).expanduser()
        if path.exists() and is_arrays(path):
            return self._called(_arrays(path, self.role))
        return super()._all()


@dataclass(frozen=True)
class NamedPictures(FileSource[Entry]):
    """Return pictures by name for a store, each a word (`find` locates it) or an array."""

    values: Mapping[str, Any] = field(default_factory=dict)
    find: Callable[[str], Any] = str

    def read(self) -> Iterator[Entry | SkippedLine]:
        for name, value in self.values.items():
            try:
                yield Entry(name, (), name, place=self.find(value) if isinstance(value, str) else value)
            except CallError as problem:
                yield SkippedLine(name, 0, "not found", str(problem))

    def depends_on(self) -> list[Any]:
        return [[name, *self._content(value)] for name, value in self.values.items()]

    def _content(self, value: Any) -> list[Any]:
        if not isinstance(value, str):
            return [blake2b(np.ascontiguousarray(value).tobytes(), digest_size=10).hexdigest(), *value.shape]
        file = next((place for place in (Path(value), *Path(value).parents) if place.is_file()), None)  # or its tar
        return [value] if file is None else [value, file.stat().st_size, file.stat().st_mtime_ns]


def _arrays(path: Path, role: Role) -> Iterator[Entry | SkippedLine]:
    images, labels, classes = of_role(load_arrays(path), role, f"data.{role}={path}")
    for row, (image, label) in enumerate(zip(images, labels, strict=True)):
        if classes is not None and not 0 <= int(label) < len(classes):
            yield SkippedLine(str(path), row + 1, "columns", f"label {label} is not one of the {len(classes)} classes")
        else:
            text = str(label) if classes is None else classes[int(label)]
            yield Entry(f"{path.name}#{row}", (text,), str(path), row + 1, place=image)
