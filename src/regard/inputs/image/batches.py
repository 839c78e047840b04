"""How batches see the pictures of a store: as pixels, changed for training, or as the features of a frozen network."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.inputs.image.augment import augmented, chance_of
from regard.inputs.image.settings import PictureAugmentSettings
from regard.inputs.image.store import PictureStore


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
