"""Pictures for classification: where they are, and the models that read them."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from regard.inputs.image.settings import (
    ConvNetSettings,
    EfficientNetSettings,
    PictureSettings,
    VisionTransformerSettings,
)
from regard.outputs.labels.settings import HeadSettings, LabelSettings


class ImageSettings(PictureSettings, LabelSettings):
    """Labeled pictures: a folder with a sub-folder for each class, a list of files and labels, arrays in a .npz."""

    kind: Literal["image"] = Field("image", description="text or image")

    def problems(self) -> Iterator[tuple[str, str]]:
        if isinstance(self.image, str) != isinstance(self.label, str) and None not in (self.image, self.label):
            yield "image", f"is {self.image!r} and label is {self.label!r}: give both by name or both by number"


class ConvNetClassifierSettings(ConvNetSettings, HeadSettings):
    """A small convolutional network, with self-attention over positions where that is asked for."""


class VisionTransformerClassifierSettings(VisionTransformerSettings, HeadSettings):
    """The Vision Transformer; its class token is what the label is read from."""


class EfficientNetClassifierSettings(EfficientNetSettings, HeadSettings):
    """EfficientNet-Lite0 with its ImageNet weights, under a new head."""
