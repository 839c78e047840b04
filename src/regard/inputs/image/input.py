"""Pictures come in: pixels of one size, an encoder of regions, and a grid to look at."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from regard.data.check import DataCheck
from regard.data.pairs import Bad
from regard.data.prepare import Steps
from regard.data.tables import Role
from regard.data.vocabulary import Vocabulary
from regard.encoders.cnn import ConvNet
from regard.encoders.cnn_weights_file import weights_file
from regard.encoders.image import VisionTransformer
from regard.encoders.image_input import PictureEncoder
from regard.errors import CallError
from regard.files.user_cache import user_cache
from regard.inputs.image.build import build_body, build_encoder
from regard.inputs.image.column import NamedPictures, PictureColumn
from regard.inputs.image.decode import BadPictureError, Decoded, Form, decode, from_python
from regard.inputs.image.features import frozen_splits
from regard.inputs.image.settings import (
    ConvNetSettings,
    EfficientNetSettings,
    PictureSettings,
    VisionTransformerSettings,
)
from regard.inputs.image.source import PictureSource
from regard.inputs.image.store import Load, PictureExamples, PictureStore, Pixels, StoredPicture, write_pictures
from regard.inputs.media_files import Bytes
from regard.inputs.media_input import MediaInput
from regard.inputs.media_source import Entry, MediaSource
from regard.inputs.media_store import MediaStore
from regard.look.axis import Axis, axis
from regard.parts import build_pooling
from regard.settings.pooling import PoolingSettings
from regard.settings.recipe import Recipe

PictureEncoderSettings = ConvNetSettings | VisionTransformerSettings | EfficientNetSettings
CLASS_TOKEN = "[CLS]"
SMALL = 64  # pixels; of large photos, networks see no more than a few hundred anyway


class PictureItem(NamedTuple):
    """`grid`: the regions that are looked at, if not those of the memory; `class_token`: it stands before them."""

    pixels: UInt8[Tensor, "C H W"]
    features: Float[Tensor, "K D"] | None = None  # in their place, where a frozen network has read them before
    grid: tuple[int, int] | None = None
    class_token: bool = False
    name: str = "a picture"


def form_of(settings: PictureSettings) -> Form:
    return Form(settings.height, settings.width, settings.channels, settings.fit, settings.max_pixels)


def _encoder_settings(recipe: Any) -> Any:
    """A model that is nothing but the network that reads has its settings itself."""
    return recipe.model if isinstance(recipe.model, PictureEncoderSettings) else recipe.model.encoder


def _loses(seen: str, wanted: str) -> bool:
    """Whether pictures "32×32 color" lose their colors, or become small by more than half, as "8×8 gray"."""
    (size, colors), (form, kept) = (text.split(" ", 1) for text in (seen, wanted))
    sides = zip(*(map(int, text.split("×")) for text in (form, size)), strict=True)
    return (colors != kept and kept == "gray") or any(2 * after < before and after < SMALL for after, before in sides)


class ImageInput(MediaInput):
    kind: ClassVar[str] = "image"
    ahead: ClassVar[bool] = True
    array_dims: ClassVar[int] = 3
    source: ClassVar[type[MediaSource]] = PictureSource
    opened: ClassVar[type[MediaStore]] = PictureStore

    def __init__(self, recipe: Recipe, section: Callable[[Any], Any] = _encoder_settings) -> None:
        super().__init__(recipe, section)
        self._train: PictureStore | None = None  # the pictures whose mean and deviation are taken

    # ------------------------------------------------------------------------------------------------------- the files
    @property
    def form(self) -> list[Any]:
        return [form_of(self.data).__dict__]

    def write(self, folder: Path, name: str, items: Iterable[Entry | Bad]) -> None:
        write_pictures(folder, items, form_of(self.data), name=name, workers=self.data.workers)

    def examples(
        self, stores: dict[Role, PictureStore], vocabulary: Vocabulary | None, cache: Path | None
    ) -> Mapping[Role, PictureExamples]:
        self._train = stores.get("train", self._train)
        load = self._load(stores, cache)
        return {
            role: PictureExamples(store, load[role], vocabulary, self.regions, self.max_length)
            for role, store in stores.items()
        }

    def _load(self, stores: dict[Role, PictureStore], cache: Path | None) -> dict[Role, Load]:
        """How batches get the pictures of each split: pixels, or the features of a frozen network, kept on disk."""
        if cache is None:
            return {role: Pixels(store) for role, store in stores.items()}
        seed, reads = self.recipe.training.seed, self.settings
        assert self._train is not None, "training data comes first"
        changed = Pixels(self._train, self.data.augment, seed)
        if isinstance(reads, EfficientNetSettings) and reads.frozen:
            encoder = build_encoder(reads, self.data, self._train, pretrained=True)
            name = f"EfficientNet-Lite0 ({weights_file().stem})"
            kept = Path(self.data.cache).expanduser() if self.data.cache else user_cache()
            return {**frozen_splits(stores, encoder, name, kept, seed, [changed] * (reads.views - 1))}
        return {role: changed if role == "train" else Pixels(store) for role, store in stores.items()}

    def look_over(self, check: DataCheck, splits: dict[Role, PictureExamples]) -> dict[str, str]:
        wanted = form_of(self.data).seen
        for role, one in splits.items():
            numbers = np.array([len(entry.texts) for entry in one.store.entries])
            usual = int(np.bincount(numbers).argmax())
            what = f"with more or fewer {check.sides[1]}s than the usual {usual}"
            check.at("note", role, np.flatnonzero(numbers != usual), what, "nothing has to be done")
            first, *others = one.store.seen or {wanted: 0}
            if role == "train" and (first != wanted or others):
                more = f" (most of them; {len(others) + 1} kinds)" if others else ""
                what = f"pictures are {first}{more}, the recipe makes them {wanted}"
                advice = "set data.width, data.height and data.channels if that loses what matters"
                check.add("warning" if _loses(first, wanted) else "note", role, what, advice, count=len(one.store))
        return {"regions of a picture": f"{self.regions}"}

    def column(self, values: Mapping[str, Any], role: Role, steps: Steps) -> PictureColumn:
        """Pictures that cannot be read are told of with the rows that name them."""
        store = self.stored(replace(steps, strict=False), role, NamedPictures(f"{role} pictures", values, self.find))
        examples = self.examples({role: store}, None, steps.cache if steps.strict else None)
        return PictureColumn(list(values), examples[role])

    # ------------------------------------------------------------------------------------------------------- one's own
    def read(self, one: Any) -> PictureItem:
        """A path, bytes, an array, a tensor, or what Pillow has opened."""
        if isinstance(one, PictureItem):
            return one
        if isinstance(one, StoredPicture):
            return self.read(one.pixels)._replace(features=one.features, name=one.name)
        try:
            return PictureItem(torch.tensor(self._decoded(one).pixels), name=self.name(one))
        except BadPictureError as problem:
            raise CallError(f"{self.name(one)}: {problem}") from None

    def _decoded(self, one: Any) -> Decoded:
        form = form_of(self.data)
        place = self.find(str(one)) if isinstance(one, str | Path) else one
        if isinstance(place, Bytes):
            try:
                return decode(place.read(), form, place.name)
            except OSError as problem:
                raise BadPictureError(f"cannot be read: {problem.strerror or problem}") from None
        return decode(place, form) if isinstance(place, bytes) else from_python(place, form)

    def name(self, one: Any) -> str:
        if isinstance(one, StoredPicture | PictureItem):
            return one.name
        return str(one) if isinstance(one, str | Path) else f"a picture ({type(one).__name__})"

    def length(self, item: PictureItem) -> int:
        return self.regions

    def collate(self, items: Sequence[PictureItem]) -> Tensor:
        features = [item.features for item in items if item.features is not None]
        return torch.stack(features if len(features) == len(items) else [item.pixels for item in items])

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        return build_encoder(self.settings, self.data, self._train, decoder, pretrained=self._train is not None)

    def pooling(self, width: int) -> nn.Module:
        s = self.settings
        return build_pooling(s.pooling, s.score, width) if isinstance(s, PoolingSettings) else super().pooling(width)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows × columns of the regions that a picture becomes."""
        with torch.device("meta"):
            return build_body(self.settings, self.data).grid

    @property
    def regions(self) -> int:
        rows, columns = self.grid
        return rows * columns

    # --------------------------------------------------------------------------------------------------------- looking
    def inside(self, item: PictureItem) -> PictureItem:
        with torch.device("meta"):
            body = build_body(self.settings, self.data)
        if isinstance(body, ConvNet):
            return item._replace(grid=body.attended)
        return item._replace(class_token=isinstance(body, VisionTransformer))

    def axis(self, item: PictureItem) -> Axis:
        grid = item.grid or self.grid
        regions = [f"row {row + 1}, column {column + 1}" for row in range(grid[0]) for column in range(grid[1])]
        first = [CLASS_TOKEN] if item.class_token else []
        return axis([*first, *regions], grid=grid, image=item.pixels.permute(1, 2, 0).numpy())

    def without(self, item: PictureItem, parts: Collection[int]) -> PictureItem:
        """Regions are covered with the mean color of the picture."""
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
        """Which region each pixel is of: H W."""
        rows, columns = item.grid or self.grid
        return (np.arange(height) * rows // height)[:, None] * columns + (np.arange(width) * columns // width)[None]
