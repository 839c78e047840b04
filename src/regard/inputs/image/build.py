"""Picture encoders from their settings."""

from typing import Any

from regard.encoders.cnn import ConvNet
from regard.encoders.cnn_pretrained import DEVIATION, MEAN, EfficientNetLite0
from regard.encoders.image import VisionTransformer
from regard.encoders.image_input import Body, Colors, PictureEncoder
from regard.inputs.image.settings import (
    ConvNetSettings,
    EfficientNetSettings,
    ImageTowerSettings,
    PictureSettings,
    VisionTransformerSettings,
)
from regard.inputs.image.store import PictureStore
from regard.layers.transformer import Block
from regard.parts import transformer_blocks
from regard.settings.base import Settings
from regard.settings.model import RecurrentSettings, TransformerSettings


def build_body(s: Settings, data: PictureSettings, *, pretrained: bool = False) -> Body:
    """Build the network that reads pictures. `pretrained`: load its published weights; a run's
    folder has trained ones.
    """
    size = (data.height, data.width)
    if isinstance(s, ConvNetSettings):
        return ConvNet(size, s.stages, depth=s.depth, attention=s.attention, channels=data.channels, dropout=s.dropout)
    if isinstance(s, VisionTransformerSettings):
        return VisionTransformer(
            size, s.patch, s.width, s.heads, s.layers,
            feed_forward=s.feed_forward, channels=data.channels, stem=s.stem, dropout=s.dropout, norm_eps=s.eps,
        )  # fmt: skip
    assert isinstance(s, EfficientNetSettings)
    return EfficientNetLite0(size).load() if pretrained else EfficientNetLite0(size)


def colors(s: Settings, data: PictureSettings, store: PictureStore | None) -> Colors:
    """Return mean and deviation of each channel: those of the pretrained weights, or those of the
    training pictures.
    """
    if isinstance(s, EfficientNetSettings):
        return Colors(MEAN, DEVIATION)
    if store is None:  # prediction: they are stored with the weights
        return Colors([0.5] * data.channels, [0.5] * data.channels)
    return Colors(store.mean, store.deviation)


def build_encoder(
    s: Settings, data: PictureSettings, train: PictureStore | None, decoder: Any = None, *, pretrained: bool
) -> PictureEncoder:
    """Build the encoder of a picture model with a decoder. Regions are projected to the decoder's width and get
    positions; blocks of self-attention may follow.
    """
    body = build_body(s, data, pretrained=pretrained)  # before the blocks: initial weights are sampled in this order
    how: dict[str, Any] = {}
    if isinstance(decoder, RecurrentSettings | TransformerSettings):
        recurrent = isinstance(decoder, RecurrentSettings)
        how = {
            "width": decoder.width,
            "positions": decoder.positions if recurrent else True,  # pyright: ignore[reportAttributeAccessIssue]
            "layers": [] if recurrent else transformer_blocks(decoder, decoder.encoder_layers, decoder=False),
            "dropout": decoder.dropout,
        }
    elif isinstance(decoder, ImageTowerSettings) and decoder.width is not None:
        wide, inside = decoder.width, 4 * decoder.width
        blocks = [Block(wide, decoder.heads, inside, dropout=decoder.dropout) for _ in range(decoder.layers)]
        how = {"width": wide, "positions": True, "layers": blocks, "dropout": decoder.dropout}
    frozen = isinstance(s, EfficientNetSettings) and s.frozen
    return PictureEncoder(body, colors=colors(s, data, train), frozen=frozen, **how)
