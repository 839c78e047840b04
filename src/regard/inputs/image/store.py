"""Pictures of one form on disk, decoded on all cores, and loaders of pixels or features for batches."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from regard.corpora.shapes import NamedThing
from regard.data.batches import random_generator
from regard.data.pairs import SkippedLine
from regard.data.store import Array
from regard.inputs.image.augment import augment
from regard.inputs.image.decode import BadPictureError, Decoded, PictureForm, decode_all, from_array
from regard.inputs.image.settings import PictureAugmentSettings
from regard.inputs.media import Loaded, MediaColumn, MediaStore, write_media
from regard.inputs.media_files import Bytes, Entry

_AT_ONCE = 4096  # pictures between two checks of the workers; far fewer are in memory

#: (pictures, rows, epoch) → what an encoder reads: rows say apart what is changed differently, as a picture may be in
#: an epoch several times.
Load = Callable[[NDArray[np.int64], NDArray[np.int64], int], Tensor]


class PictureStore(MediaStore):
    def gold(self, written: list[Any]) -> tuple[tuple[NamedThing, ...], ...]:
        return tuple(tuple(NamedThing(word, tuple(box)) for word, box in one) for one in written)

    @property
    def pixels(self) -> UInt8[np.ndarray, "N C H W"]:
        return self["values"]

    @property
    def mean(self) -> list[float]:
        """Mean and deviation of each channel, between 0 and 1."""
        return self.about["mean"]

    @property
    def deviation(self) -> list[float]:
        return self.about["deviation"]

    @property
    def seen(self) -> dict[str, int]:
        """Number of pictures of each original size, in color or gray."""
        return self.about["seen"]


class _Statistics:
    """Statistics that are accumulated over the pictures."""

    def __init__(self, channels: int) -> None:
        self.count, self.sums, self.squares = 0, np.zeros(channels), np.zeros(channels)
        self.seen: Counter[str] = Counter()

    def add(self, one: Decoded) -> None:
        values = one.pixels.reshape(len(self.sums), -1) / 255
        self.count += 1
        self.sums += values.mean(1)
        self.squares += (values**2).mean(1)
        self.seen[one.seen] += 1

    def about(self) -> dict[str, Any]:
        mean = self.sums / max(1, self.count)
        deviation = np.sqrt(np.maximum(self.squares / max(1, self.count) - mean**2, 1e-6))
        return {"mean": mean.tolist(), "deviation": deviation.tolist(), "seen": dict(self.seen.most_common())}


def write_pictures(
    folder: Path, items: Iterable[Entry | SkippedLine], form: PictureForm, *, name: str, workers: int = 0
) -> None:
    """Decode all pictures into `folder`, which must exist. Memory does not grow with their number."""
    statistics = _Statistics(form.channels)
    loaded = _load_all(items, form, workers, statistics)
    write_media(folder, name, loaded, Array("uint8", form.shape), statistics.about)


def _load_all(
    items: Iterable[Entry | SkippedLine], form: PictureForm, workers: int, statistics: _Statistics
) -> Iterator[Loaded | SkippedLine]:
    rest = iter(items)
    while some := list(islice(rest, _AT_ONCE)):
        entries = [item for item in some if not isinstance(item, SkippedLine)]
        yield from (item for item in some if isinstance(item, SkippedLine))
        files = [entry.place for entry in entries if isinstance(entry.place, Bytes)]
        from_files = decode_all(files, form, workers)
        for entry in entries:
            try:
                found = next(from_files) if isinstance(entry.place, Bytes) else from_array(entry.place, form)
            except BadPictureError as problem:
                found = problem
            if isinstance(found, BadPictureError):
                yield SkippedLine(
                    entry.file, entry.line, "unreadable", f"{entry.name}: {found}", lines=len(entry.texts)
                )
            else:
                statistics.add(found)
                yield Loaded(entry, found.pixels, found.notes)


# ------------------------------------------------------------------------------------------------------------- batches
@dataclass(frozen=True)
class Pixels:
    """Loader of a store's pixels, augmented in training if requested."""

    store: PictureStore
    augment: PictureAugmentSettings | None = None
    seed: int = 0

    def __call__(self, pictures: NDArray[np.int64], rows: NDArray[np.int64], epoch: int) -> UInt8[Tensor, "B C H W"]:
        pixels = self.store.pixels[pictures]
        if self.augment is not None and self.augment.any:
            pixels = np.stack(
                [
                    augment(one, self.augment, random_generator(self.seed, epoch, int(row)))
                    for one, row in zip(pixels, rows, strict=True)
                ]
            )
        return torch.from_numpy(np.ascontiguousarray(pixels))


class StoredPicture(NamedTuple):
    """Picture of the user: its name, its pixels, and cached features of a frozen network, if any."""

    name: str
    pixels: UInt8[np.ndarray, "H W C"]
    features: Tensor | None = None


class PictureColumn(MediaColumn):
    def __init__(self, store: PictureStore, load: Load, regions: int) -> None:
        """Create examples; `load` is the loader of pictures for batches."""
        super().__init__(store)
        self.store, self.load, self.regions = store, load, regions

    def length(self, number: int) -> int:
        return self.regions

    def source(self, numbers: NDArray[np.int64], rows: NDArray[np.int64], epoch: int) -> Tensor:
        return self.load(numbers, rows, epoch)

    def one(self, number: int) -> StoredPicture:
        pixels, at = np.ascontiguousarray(self.store.pixels[number].transpose(1, 2, 0)), np.array([number])
        features = None if isinstance(self.load, Pixels) else self.load(at, at, 0)[0]
        return StoredPicture(self.store.entries[number].name, pixels, features)
