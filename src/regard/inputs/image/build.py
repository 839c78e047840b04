"""Settings of what reads pictures into modules; and the features of a frozen one, computed once."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from torch import Tensor

from regard.data.cache import built_once
from regard.data.tables import Role
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
from regard.inputs.image.store import Features, PictureStore, Pixels
from regard.layers.transformer import Block
from regard.parts import transformer_blocks
from regard.settings.base import Settings
from regard.settings.model import RecurrentSettings, TransformerSettings

AT_ONCE = 16  # pictures that go through a network together, where nobody says how many


def build_body(s: Settings, data: PictureSettings, *, pretrained: bool = False) -> Body:
    """The network that reads pictures. `pretrained`: load the weights it comes with; a run's folder has its own."""
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
    """Mean and deviation of each channel: those that weights were trained with, or those of the training pictures."""
    if isinstance(s, EfficientNetSettings):
        return Colors(MEAN, DEVIATION)
    if store is None:  # prediction: the weights bring them
        return Colors([0.5] * data.channels, [0.5] * data.channels)
    return Colors(store.mean, store.deviation)


def build_encoder(
    s: Settings, data: PictureSettings, train: PictureStore | None, decoder: Any = None, *, pretrained: bool
) -> PictureEncoder:
    """For a decoder, regions are brought to its width and told where they are; blocks may look at all of them."""
    body = build_body(s, data, pretrained=pretrained)  # before the blocks: first weights are drawn in order
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


# ------------------------------------------------------------------------------------------------------------ features
def frozen_splits(
    stores: Mapping[Role, PictureStore], encoder: PictureEncoder, cache: Path, seed: int, changed: Sequence[Pixels]
) -> dict[Role, Features]:
    """The pictures of each split through a frozen network; training has the further views `changed` of each."""
    name = "EfficientNet-Lite0"
    return {
        role: Features(frozen_features(store, encoder, name, cache, changed if role == "train" else ()), seed)
        for role, store in stores.items()
    }


def frozen_features(
    store: PictureStore, encoder: PictureEncoder, name: str, cache: Path, changed: Sequence[Pixels] = ()
) -> NDArray[np.float16]:
    """What a frozen network makes of every picture of a store: computed once, kept on disk, mapped into memory.

    `name` stands for the network and its weights; `changed` are further views of the pictures, after the one as they
    are. Half precision is enough for activations of a few units.
    """
    views = [Pixels(store), *changed]
    shape = (len(views), len(store), encoder.grid[0] * encoder.grid[1], encoder.body.memory_width)
    if not len(store):
        return np.empty(shape, np.float16)  # what is empty cannot be mapped

    def build(folder: Path) -> None:
        console = Console(stderr=True)
        console.print(f"computing the features of {len(views) * len(store):,} pictures once, by {name}")
        table = np.memmap(folder / "features", np.float16, mode="w+", shape=shape)
        rows = np.arange(len(store))
        groups = [(view, rows[start : start + AT_ONCE]) for view in range(len(views)) for start in rows[::AT_ONCE]]
        for view, group in track(groups, "", console=console, transient=True):
            table[view, group] = _features(encoder, views[view](group, group, view)).half().cpu().numpy()
        table.flush()

    colors = [encoder.mean.flatten().tolist(), encoder.deviation.flatten().tolist()]
    ways = [[one.seed, one.augment.model_dump() if one.augment else None] for one in changed]
    folder = built_once(cache, "features", [name, encoder.grid, store.digest(), colors, ways], build)
    return np.memmap(folder / "features", np.float16, mode="r", shape=shape)


@torch.inference_mode()
def _features(encoder: PictureEncoder, pixels: Tensor) -> Tensor:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # Depthwise convolutions are a quarter quicker with channels last.
    encoder = encoder.to(device).eval()
    return encoder.features(pixels.to(device).to(memory_format=torch.channels_last)).vectors
