"""Examples on disk as memory-mapped arrays: data may be larger than memory.

A store is a folder that is written sequentially:

    NAME         the rows of an array, one after the other
    NAME.at      if they are of unequal length: where row i begins, and where the last one ends; int64
    store.json   what the arrays are, what was counted on the way, and whatever else an input knows; written last

Two arrays have the same meaning in every store of examples: `hashes`, 64 bits each of input and output, to find equal
ones, and `lines`, where each was read. `store.json` holds the size of every array, to detect an incomplete folder.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.pairs import COUNTS, ReadCounts
from regard.errors import RegardError

VERSION = 2
ABOUT = "store.json"


class Array(NamedTuple):
    """The layout of an array: `shape` is that of one row; `ragged` rows are of any length, and `shape` is that of their
    elements."""

    dtype: str
    shape: tuple[int, ...] = ()
    ragged: bool = False


HASHES, LINES = Array("uint64", (2,)), Array("int64")


def ids_array(size: int) -> Array:
    """Return an array for token ids of a vocabulary of this size, with the fewest bytes."""
    return Array("uint16" if size <= 1 << 16 else "uint32", ragged=True)


def text_hash(text: str, salt: bytes = b"") -> int:
    """Return a 64-bit hash of a text, ignoring differences of white space."""
    return int.from_bytes(blake2b(" ".join(text.split()).encode(), digest_size=8, salt=salt).digest(), "little")


class StoreWriter:
    """Writer of an existing folder. Only what is being added is in memory.

    with StoreWriter(folder, "train.tsv", source=ids_array(8000), hashes=HASHES, lines=LINES) as store:
        store.add("source", [[4, 5, 3], [6, 3]])
    """

    def __init__(self, folder: Path, name: str, **arrays: Array) -> None:
        self.counts, self.about = ReadCounts(), dict[str, Any]()  # set by the caller
        self._folder, self._name, self._arrays = folder, name, arrays
        self._ends = {part: 0 for part, array in arrays.items() if array.ragged}
        self._open = ExitStack()
        files = [*arrays, *(f"{part}.at" for part in self._ends)]
        self._files = {file: self._open.enter_context((folder / file).open("wb")) for file in files}
        for part in self._ends:
            self._files[f"{part}.at"].write(bytes(8))
        self._told_by = "hashes" if "hashes" in arrays else next(iter(arrays))
        self._digest = blake2b(digest_size=10)

    def add(self, part: str, rows: Sequence[Any] | NDArray[Any]) -> None:
        """Append rows to an array."""
        array = self._arrays[part]
        if array.ragged:
            at = self._ends[part] + np.cumsum([len(row) for row in rows], dtype=np.int64)
            self._ends[part] = int(at[-1]) if len(at) else self._ends[part]
            self._files[f"{part}.at"].write(at.tobytes())
            rows = np.concatenate([np.asarray(row, array.dtype).reshape(-1, *array.shape) for row in rows] or [[]])
        raw = np.asarray(rows, array.dtype).tobytes()
        self._files[part].write(raw)
        if part == self._told_by:
            self._digest.update(raw)

    def __enter__(self) -> "StoreWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sizes = {file: handle.tell() for file, handle in self._files.items()}
        self._open.close()
        if error is None:
            about = {
                "version": VERSION, "name": self._name, "arrays": self._arrays, "sizes": sizes,
                "digest": self._digest.hexdigest(), "counts": COUNTS.dump_python(self.counts, mode="json"),
            }  # fmt: skip
            (self._folder / ABOUT).write_text(json.dumps(about | {"about": self.about}), encoding="utf-8")


class Store:
    """Reader of a folder that `StoreWriter` wrote. Arrays are read lazily."""

    def __init__(self, folder: Path) -> None:
        try:
            read = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            if any((folder / file).stat().st_size != size for file, size in read["sizes"].items()):
                raise ValueError("it is incomplete")
            if read["version"] != VERSION:
                raise ValueError(f"it has version {read['version']}; this regard needs {VERSION}")
            arrays = {
                part: Array(dtype, tuple(shape), ragged) for part, (dtype, shape, ragged) in read["arrays"].items()
            }
            self.counts: ReadCounts = COUNTS.validate_python(read["counts"])
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise RegardError(f"{folder}: is not a valid store of examples ({problem})") from None
        self.folder, self.name, self.about = folder, str(read["name"]), read["about"]
        self._digest: str = read["digest"]
        self._arrays: Mapping[str, NDArray[Any]] = {
            file: _map_array(folder / file, array, read["sizes"][file]) for file, array in _files(arrays).items()
        }

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, part: str) -> NDArray[Any]:
        """Return a whole array; of a ragged one, the concatenated rows."""
        return self._arrays[part]

    def row(self, part: str, number: int) -> NDArray[Any]:
        """Return one row of a ragged array."""
        start, stop = self._arrays[f"{part}.at"][number : number + 2]
        return self._arrays[part][start:stop]

    def row_lengths(self, part: str) -> NDArray[np.int32]:
        return np.diff(self._arrays[f"{part}.at"]).astype(np.int32)

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """Return the hashes, N × 2; an empty array, if they were not kept."""
        return self._arrays.get("hashes", np.empty((0, 2), np.uint64))

    @property
    def lines(self) -> NDArray[np.int64]:
        return self._arrays.get("lines", np.empty(0, np.int64))

    @property
    def names(self) -> Sequence[str]:
        """Return the names of examples that have no lines; empty for others."""
        return ()

    def digest(self) -> str:
        """Return a digest of the content of the store, independent of file names."""
        return self._digest


def _files(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return dict(arrays) | {f"{part}.at": Array("int64") for part, array in arrays.items() if array.ragged}


def _map_array(file: Path, array: Array, size: int) -> NDArray[Any]:
    flat = np.asarray(np.memmap(file, array.dtype, mode="r")) if size else np.empty(0, array.dtype)
    return flat.reshape(-1, *array.shape)
