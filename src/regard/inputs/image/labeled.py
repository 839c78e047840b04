"""Labeled pictures as batches, and how many of each class there are."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.inputs.image.augment import chance_of, mixed_with
from regard.inputs.image.batches import BatchesAhead, Sight
from regard.inputs.image.settings import PictureAugmentSettings
from regard.inputs.image.store import PictureStore
from regard.outputs.labels.labels import UNKNOWN, Labels

_MIX = 1  # what random numbers are for: changes of a picture have 0


@dataclass(frozen=True)
class LabeledPictures:
    """Pictures (or their features), and a class each; or a row of shares, if they are mixed or have several."""

    inputs: Tensor
    labels: Tensor

    def to(self, device: torch.device | str) -> "LabeledPictures":
        return LabeledPictures(self.inputs.to(device, non_blocking=True), self.labels.to(device, non_blocking=True))


def classes_of(store: PictureStore, labels: Labels) -> list[tuple[int, ...]]:
    """The classes of every picture; UNKNOWN for a label that training did not have."""
    texts = (str(labels.writing.text(entry.texts[0])) for entry in store.entries)
    return [tuple(labels.classes(labels.writing.labels(text))) for text in texts]


class PictureBatches(BatchesAhead[LabeledPictures]):
    """The pictures of a store with their labels, in batches of one size."""

    def __init__(
        self,
        store: PictureStore,
        labels: Labels,
        sight: Sight,
        regions: int,
        max_tokens: int,
        *,
        augment: PictureAugmentSettings | None = None,
        seed: int = 0,
    ) -> None:
        """`augment` says whether pictures are mixed; all else that it asks for is done by `sight`."""
        rows = classes_of(store, labels)
        self._known = np.array([UNKNOWN not in row for row in rows])
        self._targets = labels.target(rows)
        self._classes, self._sight, self._augment = len(labels), sight, augment
        lengths = np.full(len(store), regions, np.int32)
        super().__init__(lengths, np.zeros(len(store), np.int32), max_tokens, seed=seed)

    def batch(self, rows: NDArray[np.int64], epoch: int = 0) -> LabeledPictures:
        if not len(rows):  # a process without a share: one picture whose label does not count
            first = np.zeros(1, np.int64)
            return LabeledPictures(self._sight(first, first, epoch), torch.full_like(self._labels(first), -1))
        if self._augment is None or not self._augment.mixup:
            return LabeledPictures(self._sight(rows, rows, epoch), self._labels(rows))
        drawn = [
            mixed_with(self._augment, chance_of(self._seed, epoch, int(row), _MIX), len(self._known)) for row in rows
        ]
        partners = np.array([partner for partner, _ in drawn], np.int64)
        share = torch.tensor([share for _, share in drawn])
        pictures, others = (self._sight(some, rows, epoch).float() for some in (rows, partners))
        images = torch.lerp(others, pictures, share.view(-1, *[1] * (pictures.ndim - 1)))
        return LabeledPictures(images, torch.lerp(self._shares(partners), self._shares(rows), share[:, None]))

    def _labels(self, rows: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(self._targets[rows])

    def _shares(self, rows: NDArray[np.int64]) -> Tensor:
        labels = self._labels(rows)
        if labels.ndim == 2:
            return labels
        return torch.nn.functional.one_hot(labels.clamp(min=0), self._classes).float()
