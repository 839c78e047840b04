"""Batches of pictures: rows of a store, changed for training, made ahead in a thread while the model works.

For the budget of a batch (`training.max_tokens`), a picture is as many tokens as it has regions.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import Full, Queue
from threading import Event, Thread
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import PlannedBatches, padded
from regard.data.tokenizer import Tokenizer
from regard.inputs.image.augment import augmented, chance_of
from regard.inputs.image.settings import PictureAugmentSettings
from regard.inputs.image.store import PictureStore
from regard.special_tokens import END, PAD

B = TypeVar("B")
T = TypeVar("T")
AHEAD = 4  # batches that are ready before they are asked for


def ahead(items: Iterator[T], most: int = AHEAD) -> Iterator[T]:
    """The same items, made by a thread while the last one is in use. Numpy, Pillow and torch let it run beside them."""
    queue: Queue[tuple[bool, Any]] = Queue(most)
    stop = Event()

    def put(item: tuple[bool, Any]) -> None:
        while not stop.is_set():
            try:
                return queue.put(item, timeout=0.1)
            except Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put((True, item))
                if stop.is_set():
                    return
            put((False, None))
        except BaseException as problem:  # raised again where the items are used
            put((False, problem))

    thread = Thread(target=work, daemon=True, name="regard-pictures")
    thread.start()
    try:
        while True:
            more, item = queue.get()
            if not more:
                if item is not None:
                    raise item
                return
            yield item
    finally:
        stop.set()
        thread.join()


@dataclass(frozen=True)
class Pixels:
    """The pictures of a store as batches want them: uint8, changed for training where that is asked for."""

    store: PictureStore
    augment: PictureAugmentSettings | None = None
    seed: int = 0

    def __call__(self, rows: NDArray[np.int64], keys: NDArray[np.int64], epoch: int) -> Tensor:
        """`keys` say apart what is changed differently: a picture may be in an epoch several times."""
        if self.augment is None or not self.augment.any:
            return torch.from_numpy(np.ascontiguousarray(self.store.pixels[rows]))
        return torch.from_numpy(
            np.stack(
                [
                    augmented(self.store[int(row)], self.augment, chance_of(self.seed, epoch, int(key)))
                    for row, key in zip(rows, keys, strict=True)
                ]
            )
        )


@dataclass(frozen=True)
class Features:
    """The same for features that were computed once: views × pictures × regions × width, on disk.

    Where there are several views of a picture, each epoch draws one of them.
    """

    table: NDArray[Any]
    seed: int = 0

    def __call__(self, rows: NDArray[np.int64], keys: NDArray[np.int64], epoch: int) -> Tensor:
        views = len(self.table)
        drawn = [int(chance_of(self.seed, epoch, int(key)).integers(views)) if views > 1 else 0 for key in keys]
        return torch.from_numpy(np.ascontiguousarray(self.table[drawn, rows]))


Sight = Callable[[NDArray[np.int64], NDArray[np.int64], int], Tensor]


@dataclass(frozen=True)
class CaptionBatch:
    """Pictures (or their features), and a caption of each: ids that end with `</s>`, padded with 0."""

    source: Tensor
    target: Int[Tensor, "B T"]

    def to(self, device: torch.device | str) -> "CaptionBatch":
        return CaptionBatch(self.source.to(device, non_blocking=True), self.target.to(device, non_blocking=True))


class Captions:
    """Every caption of a store as a row of its own: which picture, and which ids."""

    def __init__(self, store: PictureStore, tokenizer: Tokenizer, max_length: int) -> None:
        """Captions of more than `max_length` tokens, the end token included, are left out."""
        end = END if tokenizer.specials.end is None else tokenizer.specials.end
        texts = [text for entry in store.entries for text in entry.texts]
        pictures = [number for number, entry in enumerate(store.entries) for _ in entry.texts]
        ids = [np.array([*one, end], np.int32) for one in tokenizer.encode_batch(texts)]
        kept = [number for number, one in enumerate(ids) if len(one) <= max_length]
        self.ids: Sequence[NDArray[np.int32]] = [ids[number] for number in kept]
        self.pictures: NDArray[np.int64] = np.array([pictures[number] for number in kept], np.int64)
        self.overlong = len(texts) - len(kept)
        self.lengths: NDArray[np.int32] = np.array([len(one) for one in self.ids], np.int32)
        self.all_lengths: NDArray[np.int32] = np.array([len(one) for one in ids], np.int32)
        self.unknown = int(sum((one == tokenizer.specials.unk).sum() for one in ids))

    def __len__(self) -> int:
        return len(self.ids)


class BatchesAhead(PlannedBatches[B]):
    """Batches that a thread makes ahead; what is changed for training depends on the epoch."""

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[B]:
        if not 0 <= rank < world:
            raise ValueError(f"rank={rank} must be at least 0 and less than world={world}")
        return ahead(self.batch(rows[rank::world], number) for rows in self.plan(number)[start:])

    @abstractmethod
    def batch(self, rows: NDArray[np.int64], epoch: int = 0) -> B:
        """The given examples, as this epoch has them."""


class CaptionBatches(BatchesAhead[CaptionBatch]):
    """The captions of a store with their pictures, captions of like length together."""

    def __init__(self, captions: Captions, sight: Sight, regions: int, max_tokens: int, *, seed: int = 0) -> None:
        self._captions, self._sight = captions, sight
        super().__init__(np.full(len(captions), regions, np.int32), captions.lengths, max_tokens, seed=seed)

    def batch(self, rows: NDArray[np.int64], epoch: int = 0) -> CaptionBatch:
        if not len(rows):  # a process without a share: one picture, and nothing to say of it
            first = np.zeros(1, np.int64)
            return CaptionBatch(self._sight(first, first, epoch), torch.full((1, 1), PAD))
        source = self._sight(self._captions.pictures[rows], rows, epoch)
        return CaptionBatch(source, padded([self._captions.ids[row] for row in rows]))
