"""Where the user's pictures are: what all files may be (`media_source.py`), and arrays.

data.train=pictures.npz           arrays x_train, y_train, x_test, y_test (and classes: the names of the labels)
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar
from zipfile import BadZipFile

import numpy as np

from regard.corpora.pictures import load_pictures
from regard.data.files import Source
from regard.data.pairs import Bad
from regard.data.tables import SPLIT_NAMES, Role
from regard.errors import CallError, RegardError
from regard.files.foreign import require_memory_for
from regard.inputs.image.decode import pillow
from regard.inputs.media_source import Entry, MediaSource

UNREADABLE = frozenset((".heic", ".heif", ".avif", ".jxl", ".svg", ".raw"))  # by Pillow alone: named, not overlooked


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
        """Names without an ending are common in data sets."""
        return cls.is_one(name) or not PurePosixPath(name).suffix

    def corpus(self) -> Iterator[Entry]:
        for row, one in enumerate(load_pictures(self.where, self.role)):
            yield Entry(f"{self.where}#{row}", one.texts, self.where, row + 1, one.nouns, one.image)

    def _all(self) -> Iterable[Entry | Bad]:
        path = Path(self.where).expanduser()
        if path.suffix == ".npz" and path.is_file():
            return self._called(_arrays(path, self.role))
        return super()._all()


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


def _arrays(path: Path, role: Role) -> Iterator[Entry | Bad]:
    """x_train and y_train (or x_valid, x_test, ...; or x and y), and `classes`, names for labels that are numbers."""
    names = [name for split in SPLIT_NAMES[role] for name in (f"x_{split}", f"{split}_images", f"x{split}")] + ["x"]
    where = f"data.{role}={path}"
    require_memory_for(path)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            images, labels, classes = _of_role(arrays, names, where)
    except CallError:
        raise
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error, MemoryError) as problem:
        raise RegardError(f"{where}: is not a complete .npz file of plain arrays ({problem})") from None
    if len(images) != len(labels):
        raise RegardError(f"{where}: {len(images):,} pictures but {len(labels):,} labels")
    for row, (image, label) in enumerate(zip(images, labels, strict=True)):
        if classes is not None and not 0 <= int(label) < len(classes):
            yield Bad(str(path), row + 1, "columns", f"label {label} is not one of the {len(classes)} classes")
        else:
            text = str(label if classes is None else classes[int(label)])
            yield Entry(f"{path.name}#{row}", (text,), str(path), row + 1, place=image)


def _of_role(arrays: Any, names: list[str], where: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    found = next((name for name in names if name in arrays.files), None)
    if found is None:
        raise CallError(f"{where}: it has no array {names[0]}; it has {', '.join(arrays.files)}")
    of_labels = found.replace("x", "y", 1) if found.startswith("x") else found.replace("images", "labels")
    if of_labels not in arrays.files:
        raise CallError(f"{where}: it has {found} but no {of_labels}")
    return arrays[found], arrays[of_labels], arrays["classes"] if "classes" in arrays.files else None
