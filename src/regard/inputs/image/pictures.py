"""What the jobs on pictures share: encoders from settings, pictures from what the user names, features kept on disk."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
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
from regard.errors import CallError
from regard.inputs.image.batches import Features, Pixels, Sight
from regard.inputs.image.decode import BadPictureError, Decoded, Form, decode, from_array, from_picture
from regard.inputs.image.settings import (
    ConvNetSettings,
    EfficientNetSettings,
    PictureSettings,
    VisionTransformerSettings,
)
from regard.inputs.image.sources import find_input
from regard.inputs.image.store import PictureStore
from regard.inputs.image.worker import Bytes
from regard.settings.base import Settings

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


def regions_of(s: Settings, data: PictureSettings) -> int:
    """How many vectors a picture becomes."""
    with torch.device("meta"):
        rows, columns = build_body(s, data).grid
    return rows * columns


# -------------------------------------------------------------------------------------------------------------- inputs
def read_inputs(inputs: Sequence[Any], form: Form) -> UInt8[Tensor, "B C H W"]:
    """Pictures by path, member of a tar or row of a corpus; as bytes; as an array; or as Pillow has read them."""
    found = [_read(one, form).pixels for one in inputs]
    return torch.from_numpy(np.stack(found)) if found else torch.empty(0, *form.shape, dtype=torch.uint8)


def name_of(one: Any) -> str:
    """What a prediction says that it is about."""
    return str(one) if isinstance(one, str | Path) else f"a picture ({type(one).__name__})"


def _read(one: Any, form: Form) -> Decoded:
    try:
        if isinstance(one, bytes):
            return decode(one, form)
        if isinstance(one, str | Path):
            place = find_input(str(one))
            return decode(place.read(), form, place.name) if isinstance(place, Bytes) else from_array(place, form)
        if hasattr(one, "convert"):  # Pillow's own
            return from_picture(one, form)
        return from_array(one, form)
    except BadPictureError as problem:
        raise CallError(f"{name_of(one)}: {problem}") from None


# ------------------------------------------------------------------------------------------------------------ features
def frozen_sights(
    stores: Mapping[Role, PictureStore],
    data: PictureSettings,
    reads: EfficientNetSettings,
    encoder: PictureEncoder,
    cache: Path,
    seed: int,
) -> dict[Role, Sight]:
    """How batches see the pictures of each split through a frozen network; training may have several views of each."""
    changed = [Pixels(stores["train"], data.augment, seed)] * (reads.views - 1) if "train" in stores else []
    return {
        role: Features(
            frozen_features(store, encoder, "EfficientNet-Lite0", cache, changed if role == "train" else []), seed
        )
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
