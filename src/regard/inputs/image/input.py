"""Picture input: pixels of one size, an encoder of regions, and a grid as its axis."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.encoders.cnn import ConvNet
from regard.encoders.image import VisionTransformer
from regard.encoders.image_input import PictureEncoder
from regard.inputs.image.build import build_encoder
from regard.inputs.image.data import ImageData, PictureItem
from regard.look.axis import Axis, axis
from regard.parts import build_pooling
from regard.settings.pooling import PoolingSettings

CLASS_TOKEN = "[CLS]"
PLAIN = 16  # cells per side of the picture for baselines


class ImageInput(ImageData):
    # --------------------------------------------------------------------------------------------------- single inputs
    def length(self, item: PictureItem) -> int:
        return self.regions

    def collate(self, items: Sequence[PictureItem]) -> Tensor:
        features = [item.features for item in items if item.features is not None]
        return torch.stack(features if len(features) == len(items) else [item.pixels for item in items])

    def plain(self, one: Any) -> Float[np.ndarray, " D"]:
        """Return a small picture: the mean colors of a grid."""
        pixels = self.read(one).pixels.float()
        return F.adaptive_avg_pool2d(pixels, min(PLAIN, *pixels.shape[1:])).flatten().numpy()

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        return build_encoder(self.settings, self.data, self._train, decoder, pretrained=self._train is not None)

    def pooling(self, width: int) -> nn.Module:
        s = self.settings
        return build_pooling(s.pooling, s.score, width) if isinstance(s, PoolingSettings) else super().pooling(width)

    # ---------------------------------------------------------------------------------------------------- explanations
    def inside(self, item: PictureItem) -> PictureItem:
        body = self.sizes
        if isinstance(body, ConvNet):
            return item._replace(grid=body.attended)
        return item._replace(class_token=isinstance(body, VisionTransformer))

    def afresh(self, item: PictureItem) -> PictureItem:
        """Return the item with pixels: features cached from a frozen network have no gradients by pixels."""
        return item._replace(features=None)

    def axis(self, item: PictureItem) -> Axis:
        grid = item.grid or self.grid
        regions = [f"row {row + 1}, column {column + 1}" for row in range(grid[0]) for column in range(grid[1])]
        first = [CLASS_TOKEN] if item.class_token else []
        return axis([*first, *regions], grid=grid, image=item.pixels.permute(1, 2, 0).numpy())

    def without(self, item: PictureItem, parts: Collection[int]) -> PictureItem:
        """Return the item with regions covered by the mean color of the picture."""
        pixels = item.pixels.clone()
        color = pixels.float().mean((1, 2)).round().to(pixels.dtype)[:, None, None]
        owner = torch.from_numpy(self._regions_of_pixels(item, pixels.shape[1], pixels.shape[2]))
        covered = torch.isin(owner, torch.tensor(sorted(parts)))
        return item._replace(pixels=torch.where(covered, color, pixels), features=None)

    def vectors(self, encoder: nn.Module) -> nn.Module:
        assert isinstance(encoder, PictureEncoder)
        return encoder.pixels

    def gather(self, item: PictureItem, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        table = products[0].sum(1)  # N H W
        owner, (rows, columns) = self._regions_of_pixels(item, *table.shape[1:]).ravel(), item.grid or self.grid
        return np.stack([np.bincount(owner, one.ravel(), minlength=rows * columns) for one in table])

    def _regions_of_pixels(self, item: PictureItem, height: int, width: int) -> np.ndarray:
        """Return the region of each pixel: H W."""
        rows, columns = item.grid or self.grid
        return (np.arange(height) * rows // height)[:, None] * columns + (np.arange(width) * columns // width)[None]
