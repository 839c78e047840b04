"""Stored pictures as examples: each thing that is said of a picture is a row of its own."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example, Examples
from regard.inputs.base import Vocabulary
from regard.inputs.image.batches import Sight
from regard.inputs.image.store import PictureStore
from regard.special_tokens import END


class StoredPicture(NamedTuple):
    """A picture of one's own data: its name, its pixels, and what a frozen network made of it, if that was kept."""

    name: str
    pixels: UInt8[np.ndarray, "H W C"]
    features: Tensor | None = None


class PictureExamples(Examples):
    def __init__(
        self, store: PictureStore, sight: Sight, vocabulary: Vocabulary, regions: int, max_length: int | None
    ) -> None:
        """`sight`: how batches see the pictures. `max_length`: longer texts,
        the end token included, are left out."""
        self.store, self._sight, self._regions = store, sight, regions
        self.name, self.counts = store.name, store.read
        end = END if vocabulary.specials.end is None else vocabulary.specials.end
        texts = [text for entry in store.entries for text in entry.texts]
        pictures = [number for number, entry in enumerate(store.entries) for _ in entry.texts]
        ids = [np.array([*one, end], np.int32) for one in vocabulary.encode_batch(texts)]
        kept = [number for number, one in enumerate(ids) if max_length is None or len(one) <= max_length]
        self._ids = [ids[number] for number in kept]
        self.pictures: NDArray[np.int64] = np.array([pictures[number] for number in kept], np.int64)
        self.overlong = len(texts) - len(kept)
        self.text_lengths: NDArray[np.int32] = np.array([len(one) for one in ids], np.int32)  # of all of them
        self.unknown = int(sum((one == vocabulary.specials.unk).sum() for one in ids))

    def __len__(self) -> int:
        return len(self._ids)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        return np.full(len(self), self._regions, np.int32), np.array([len(one) for one in self._ids], np.int32)

    def source(self, rows: NDArray[np.int64], epoch: int) -> Tensor:
        """`rows` say apart what is changed differently: a picture may be in an epoch several times."""
        return self._sight(self.pictures[rows], rows, epoch)

    def target(self, row: int) -> NDArray[Any]:
        return self._ids[row]

    def digest(self) -> str:
        return self.store.digest()

    def targets_read(self) -> Iterator[tuple[str, int]]:
        return ((text, entry.line) for entry in self.store.entries for text in entry.texts)

    def examples(self, most: int) -> list[Example]:
        """Evenly spread, as neighbors in a list are often alike."""
        rows = range(0, len(self.store), max(1, len(self.store) // most))[:most]
        return [self._example(row) for row in rows]

    def all(self) -> list[Example]:
        return [self._example(row) for row in range(len(self.store))]

    def _example(self, row: int) -> Example:
        entry = self.store.entries[row]
        pixels = np.ascontiguousarray(self.store.pixels[row].transpose(1, 2, 0))
        at = np.array([row])
        seen = self._sight(at, at, 0)[0]
        kept = seen if seen.ndim == 2 else None  # features, and not the pixels again
        return Example(StoredPicture(entry.name, pixels, kept), entry.texts, entry.nouns or None)
