"""Features of pictures from a frozen network: computed once for all runs, and cached by content.

    key(picture, view) = BLAKE2b(how the view was changed, pixels)          in a folder for each network

The same picture is found again in any file, split or run. Missing features are computed and stored as one more part,
which is not changed afterwards. Half precision is enough for activations of a few units.
"""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import random_generator
from regard.data.prepare import built_once, damage_of, with_progress
from regard.data.tables import Role
from regard.encoders.image import PictureEncoder
from regard.inputs.image.store import PictureStore, Pixels

AT_ONCE = 16  # pictures in one batch of the network
KEY = 16  # bytes


class FeaturePart(NamedTuple):
    """Features that were computed together: the row of each key, and N × regions × width."""

    rows: dict[bytes, int]
    table: NDArray[np.float16]


@dataclass(frozen=True)
class FeatureTable:
    """Features of views × pictures; `places` has the table and the row of each."""

    tables: list[NDArray[np.float16]]
    places: NDArray[np.int64]  # V N 2

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, at: tuple[Any, Any]) -> NDArray[np.float16]:
        """Return features of view and picture pairs: B × regions × width."""
        places = self.places[at]
        found = np.empty((len(places), *self.tables[0].shape[1:]), np.float16)
        for number in np.unique(places[:, 0]):
            here = places[:, 0] == number
            found[here] = self.tables[number][places[here, 1]]
        return found


@dataclass(frozen=True)
class Features:
    """Loader of features for batches; if a picture has several views, each epoch samples one of them."""

    table: FeatureTable
    seed: int = 0

    def __call__(self, pictures: NDArray[np.int64], rows: NDArray[np.int64], epoch: int) -> Tensor:
        views = len(self.table)
        drawn = [int(random_generator(self.seed, epoch, int(row)).integers(views)) if views > 1 else 0 for row in rows]
        return torch.from_numpy(self.table[np.array(drawn, np.int64), pictures])


def frozen_splits(
    stores: Mapping[Role, PictureStore], encoder: PictureEncoder, name: str, cache: Path, seed: int,
    changed: Sequence[Pixels],
) -> dict[Role, Features]:  # fmt: skip
    """Compute features of the pictures of each split; training has the further views `changed` of each."""
    return {
        role: Features(frozen_features(store, encoder, name, cache, changed if role == "train" else ()), seed)
        for role, store in stores.items()
    }


def frozen_features(
    store: PictureStore, encoder: PictureEncoder, name: str, cache: Path, changed: Sequence[Pixels] = ()
) -> FeatureTable:
    """Compute missing features. `name` identifies the network and its weights; `changed` are further views, after the
    unchanged one.
    """
    colors = [encoder.mean.flatten().tolist(), encoder.deviation.flatten().tolist()]
    width = encoder.body.memory_width
    shape = (encoder.grid[0] * encoder.grid[1], width)
    network = blake2b(json.dumps([name, encoder.grid, width, colors]).encode(), digest_size=10).hexdigest()
    place = cache / f"features-{network}"
    views = [Pixels(store), *changed]
    contents = [blake2b(one.tobytes(), digest_size=KEY).digest() for one in store.pixels]
    keys = [[_key(content, view, pixels) for content in contents] for view, pixels in enumerate(views)]
    wanted = {key: (view, row) for view, some in enumerate(keys) for row, key in enumerate(some)}
    parts = _parts(place, shape, wanted)
    known = {key for part in parts for key in part.rows}
    if missing := {key: at for key, at in wanted.items() if key not in known}:

        def build(folder: Path) -> None:
            table = np.memmap(folder / "features", np.float16, mode="w+", shape=(len(missing), *shape))
            doing = f"computing features of {len(missing):,} pictures by {name}, once for all runs"
            rows, done = iter(with_progress(missing.values(), doing, AT_ONCE)), 0
            while some := list(islice(rows, AT_ONCE)):
                pixels = [_pixels(views[view], row, contents[row], view) for view, row in some]
                table[done : done + len(some)] = _features(encoder, torch.cat(pixels)).half().cpu().numpy()
                done += len(some)
            table.flush()
            (folder / "keys").write_bytes(b"".join(missing))

        made = built_once(place, "part", [key.hex() for key in missing], build)
        parts.append(_part(made, shape))
    where = {key: (number, row) for number, part in enumerate(parts) for key, row in part.rows.items()}
    return FeatureTable([part.table for part in parts], np.array([[where[key] for key in some] for some in keys]))


def _key(content: bytes, view: int, pixels: Pixels) -> bytes:
    how = [view, pixels.seed, pixels.augment.model_dump()] if pixels.augment is not None else None
    return blake2b(json.dumps(how).encode() + content, digest_size=KEY).digest()


def _pixels(pixels: Pixels, row: int, content: bytes, view: int) -> Tensor:
    """Return a view of one picture; its changes depend on its content, so they are the same in another store."""
    return pixels(np.array([row]), np.array([int.from_bytes(content[:6])]), view)


def _parts(place: Path, shape: tuple[int, int], wanted: Mapping[bytes, Any]) -> list[FeaturePart]:
    """Return intact tables with at least one wanted key; remove damaged ones."""
    found = []
    for folder in sorted(place.glob("part-*")):
        if (folder / "keys").is_file() and _rows(folder).keys().isdisjoint(wanted):
            continue
        if (damage := damage_of(folder)) is None:
            found.append(_part(folder, shape))
        else:
            print(f"{folder} is damaged ({damage}); it is computed again", file=sys.stderr)
            shutil.rmtree(folder, ignore_errors=True)
    return found


def _part(folder: Path, shape: tuple[int, int]) -> FeaturePart:
    rows = _rows(folder)
    return FeaturePart(rows, np.memmap(folder / "features", np.float16, mode="r", shape=(len(rows), *shape)))


def _rows(folder: Path) -> dict[bytes, int]:
    keys = (folder / "keys").read_bytes()
    return {keys[start : start + KEY]: start // KEY for start in range(0, len(keys), KEY)}


@torch.inference_mode()
def _features(encoder: PictureEncoder, pixels: Tensor) -> Tensor:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # Depthwise convolutions are a quarter faster with channels last.
    encoder = encoder.to(device).eval()
    return encoder.features(pixels.to(device).to(memory_format=torch.channels_last)).vectors
