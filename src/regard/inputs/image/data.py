"""Pictures from files and of the user: decoded, kept on disk, checked."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.data.check import DataCheck
from regard.data.pairs import Bad
from regard.data.prepare import Steps
from regard.data.splits import Split
from regard.data.tables import Role
from regard.data.vocabulary import Vocabulary
from regard.encoders.cnn_weights_file import weights_file
from regard.encoders.image_input import Body
from regard.errors import CallError
from regard.files.user_cache import user_cache
from regard.inputs.image import defaults
from regard.inputs.image.build import build_body, build_encoder
from regard.inputs.image.decode import BadPictureError, Decoded, Form, decode, from_python
from regard.inputs.image.features import frozen_splits
from regard.inputs.image.settings import (
    ConvNetSettings,
    EfficientNetSettings,
    PictureSettings,
    VisionTransformerSettings,
)
from regard.inputs.image.source import NamedPictures, PictureSource
from regard.inputs.image.store import Load, PictureColumn, PictureStore, Pixels, StoredPicture, write_pictures
from regard.inputs.media_files import Bytes
from regard.inputs.media_input import MediaInput
from regard.inputs.media_source import Entry, MediaSource
from regard.inputs.media_store import MediaExamples, MediaStore
from regard.settings.decisions import Decision
from regard.settings.recipe import Recipe

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


def form_of(settings: PictureSettings) -> Form:
    return Form(settings.height, settings.width, settings.channels, settings.fit, settings.max_pixels, settings.white)


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

    def write(self, folder: Path, name: str, items: Iterable[Entry | Bad]) -> None:
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

    def decided(self) -> list[Decision]:
        return self.decided_by(entry.place for entry in self.some())

    def decided_by(self, some: Iterable[Any]) -> list[Decision]:
        if isinstance(self.settings, EfficientNetSettings):
            return defaults.of_efficientnet()
        facts = []
        for one in some:
            with suppress(BadPictureError):
                size, colors = self._decoded(one).seen.split(" ")
                width, height = map(int, size.split("×"))
                facts.append((height, width, colors == "color"))
        return defaults.sizes(facts, self.multiple) if facts else []

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

    def column(self, values: Mapping[str, Any], role: Role, steps: Steps) -> PictureColumn:
        """List unreadable pictures with the rows that name them."""
        pictures = NamedPictures(f"{role} pictures", role, values=values, find=self.find)
        store = self.stored(steps, role, Split(pictures), refuse=False)
        return self._columns({role: store}, steps.cache if steps.strict else None)[role]

    def read(self, one: Any) -> PictureItem:
        """Read a path, bytes, an array, a tensor, or an image of Pillow."""
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
