"""Picture input: pixels of one size, an encoder of regions, and a grid as its axis."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from regard.data.check import DataCheck
from regard.data.pairs import SkippedLine
from regard.data.prepare import PrepareCache, Split
from regard.data.tables import Role
from regard.data.vocabulary import Vocabulary
from regard.encoders.cnn_pretrained import DEVIATION, MEAN, EfficientNetLite0, weights_file
from regard.encoders.image import Body, Colors, ConvNet, PictureEncoder, VisionTransformer
from regard.errors import CallError
from regard.files.hub import user_cache
from regard.inputs.image import settings
from regard.inputs.image.decode import BadPictureError, Decoded, PictureForm, decode, from_python
from regard.inputs.image.features import frozen_splits
from regard.inputs.image.settings import (
    ConvNetSettings,
    EfficientNetSettings,
    ImageTowerSettings,
    PictureSettings,
    VisionTransformerSettings,
)
from regard.inputs.image.source import NamedPictures, PictureSource
from regard.inputs.image.store import Load, PictureColumn, PictureStore, Pixels, StoredPicture, write_pictures
from regard.inputs.media import MediaExamples, MediaInput, MediaStore
from regard.inputs.media_files import Bytes, Entry, MediaSource
from regard.layers.transformer import Block
from regard.look.axis import Axis, axis
from regard.models.build import build_pooling, transformer_blocks
from regard.settings.base import Settings
from regard.settings.model import PoolingSettings, RecurrentSettings, TransformerSettings
from regard.settings.recipe import Decision, Recipe

# Picture encoders from their settings.


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


# Pictures from files and of the user: decoded, kept on disk, checked.

PictureEncoderSettings = ConvNetSettings | VisionTransformerSettings | EfficientNetSettings

SMALL = 64  # pixels; networks read large photos at a few hundred pixels at most


class PictureItem(NamedTuple):
    """Picture as a model reads it. `grid`: regions of the axis if they differ from those of the memory; `class_token`:
    it precedes them.
    """

    pixels: UInt8[Tensor, "C H W"]
    features: Float[Tensor, "K D"] | None = None  # replaces the pixels if a frozen network has computed them
    grid: tuple[int, int] | None = None
    class_token: bool = False
    name: str = "a picture"


def form_of(settings: PictureSettings) -> PictureForm:
    return PictureForm(
        settings.height, settings.width, settings.channels, settings.fit, settings.max_pixels, settings.white
    )


def _encoder_settings(recipe: Any) -> Any:
    """Return the encoder settings; for a model that is only an encoder, the model settings."""
    return recipe.model if isinstance(recipe.model, PictureEncoderSettings) else recipe.model.encoder


def _loses(seen: str, wanted: str) -> bool:
    """Whether "32×32 color" pictures lose their colors, or shrink by more than half, in a form such as "8×8 gray"."""
    (size, colors), (form, kept) = (text.split(" ", 1) for text in (seen, wanted))
    sides = zip(*(map(int, text.split("×")) for text in (form, size)), strict=True)
    return (colors != kept and kept == "gray") or any(2 * after < before and after < SMALL for after, before in sides)


class ImageData(MediaInput):
    kind: ClassVar[str] = "image"
    ahead: ClassVar[bool] = True
    array_dims: ClassVar[int] = 3
    source: ClassVar[type[MediaSource]] = PictureSource
    opened: ClassVar[type[MediaStore]] = PictureStore

    def __init__(self, recipe: Recipe, section: Callable[[Any], Any] = _encoder_settings) -> None:
        super().__init__(recipe, section)
        self._train: PictureStore | None = None  # the pictures for mean and deviation
        self._sizes: tuple[Recipe, Body] | None = None

    @property
    def form(self) -> list[Any]:
        return [form_of(self.data).__dict__]

    def write(self, folder: Path, name: str, items: Iterable[Entry | SkippedLine]) -> None:
        write_pictures(folder, items, form_of(self.data), name=name, workers=self.data.workers)

    def examples(
        self, stores: dict[Role, PictureStore], vocabulary: Vocabulary | None, cache: Path | None
    ) -> Mapping[Role, MediaExamples]:
        columns = self._columns(stores, cache)
        return {
            role: MediaExamples(store, columns[role], vocabulary, max_length=self.max_length, scored=role != "train")
            for role, store in stores.items()
        }

    def _columns(self, stores: dict[Role, PictureStore], cache: Path | None) -> dict[Role, PictureColumn]:
        self._train = stores.get("train", self._train)
        load, regions = self._load(stores, cache), self.regions
        return {role: PictureColumn(store, load[role], regions) for role, store in stores.items()}

    def _load(self, stores: dict[Role, PictureStore], cache: Path | None) -> dict[Role, Load]:
        """Return loaders of pictures for each split: pixels, or the features of a frozen network, kept on disk."""
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

    def auto_settings(self) -> list[Decision]:
        return self.decided_by(entry.place for entry in self.sample_examples())

    def decided_by(self, some: Iterable[Any]) -> list[Decision]:
        if isinstance(self.settings, EfficientNetSettings):
            return settings.of_efficientnet()
        facts = []
        for one in some:
            with suppress(BadPictureError):
                size, colors = self._decode_all(one).seen.split(" ")
                width, height = map(int, size.split("×"))
                facts.append((height, width, colors == "color"))
        return settings.sizes(facts, self.multiple) if facts else []

    @property
    def multiple(self) -> int:
        """Return the number of pixels that must divide both sides."""
        return self.settings.patch if isinstance(self.settings, VisionTransformerSettings) else 4

    def look_over(self, check: DataCheck, splits: dict[Role, Any]) -> dict[str, str]:
        wanted = form_of(self.data).seen
        for role, one in splits.items():
            numbers = np.array([len(entry.texts) for entry in one.store.entries])
            usual = int(np.bincount(numbers).argmax())
            what = f"with more or fewer {check.sides[1]}s than the usual {usual}"
            check.at("note", role, np.flatnonzero(numbers != usual), what, "no action is needed")
            first, *others = one.store.seen or {wanted: 0}
            if role == "train" and (first != wanted or others):
                more = f" (most of them; {len(others) + 1} kinds)" if others else ""
                what = f"pictures are {first}{more}, the recipe makes them {wanted}"
                advice = "set data.width, data.height and data.channels if this loses important details"
                check.add("warning" if _loses(first, wanted) else "note", role, what, advice, count=len(one.store))
        return {"regions of a picture": f"{self.regions}"}

    def column(self, values: Mapping[str, Any], role: Role, steps: PrepareCache) -> PictureColumn:
        """List unreadable pictures with the rows that name them."""
        pictures = NamedPictures(f"{role} pictures", role, values=values, find=self.find)
        store = self.open_store(steps, role, Split(pictures), refuse=False)
        return self._columns({role: store}, steps.cache if steps.strict else None)[role]

    def read(self, one: Any) -> PictureItem:
        """Read a path, bytes, an array, a tensor, or an image of Pillow."""
        if isinstance(one, PictureItem):
            return one
        if isinstance(one, StoredPicture):
            return self.read(one.pixels)._replace(features=one.features, name=one.name)
        try:
            return PictureItem(torch.tensor(self._decode_all(one).pixels), name=self.name(one))
        except BadPictureError as problem:
            raise CallError(f"{self.name(one)}: {problem}") from None

    def _decode_all(self, one: Any) -> Decoded:
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

    @property
    def sizes(self) -> Body:
        """Return the picture network without weights, cached, to compute the sizes of regions."""
        if self._sizes is None or self._sizes[0] is not self.recipe:
            with torch.device("meta"):
                self._sizes = self.recipe, build_body(self.settings, self.data)
        return self._sizes[1]

    @property
    def grid(self) -> tuple[int, int]:
        """Return rows × columns of the regions of a picture."""
        return self.sizes.grid

    @property
    def regions(self) -> int:
        rows, columns = self.grid
        return rows * columns


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

    def without_features(self, item: PictureItem) -> PictureItem:
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
