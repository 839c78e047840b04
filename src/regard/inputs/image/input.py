"""Pictures come in: pixels of one size, an encoder of regions, and a grid to look at."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from regard.data.check_report import PERCENTILES, CheckReport, Finding, SideFigures, SplitFigures
from regard.data.examples import Example, Examples
from regard.data.tables import Role
from regard.encoders.cnn import ConvNet
from regard.encoders.image import VisionTransformer
from regard.encoders.image_input import PictureEncoder
from regard.inputs.base import Input, Targets, Vocabulary
from regard.inputs.image.batches import Pixels, Sight
from regard.inputs.image.check import picture_findings, text_findings
from regard.inputs.image.column import NamedPictures, PictureColumn
from regard.inputs.image.examples import PictureExamples, StoredPicture
from regard.inputs.image.pictures import build_body, colors, frozen_sights, name_of, read_inputs
from regard.inputs.image.prepare import form_of, prepare_pictures, sources_of, store_of
from regard.inputs.image.settings import (
    ConvNetSettings,
    EfficientNetSettings,
    ImageTowerSettings,
    VisionTransformerSettings,
)
from regard.inputs.image.sources import PictureSource
from regard.inputs.image.store import PictureStore
from regard.layers.transformer import Block
from regard.look.axis import Axis, axis
from regard.parts import transformer_blocks
from regard.settings.model import RecurrentSettings, TransformerSettings
from regard.settings.recipe import Recipe

PictureEncoderSettings = ConvNetSettings | VisionTransformerSettings | EfficientNetSettings
CLASS_TOKEN = "[CLS]"


class PictureItem(NamedTuple):
    """`grid`: the regions that are looked at, if not those of the memory; `class_token`: it stands before them."""

    pixels: UInt8[Tensor, "C H W"]
    features: Float[Tensor, "K D"] | None = None  # in their place, where a frozen network has read them before
    grid: tuple[int, int] | None = None
    class_token: bool = False


def _encoder_settings(recipe: Any) -> Any:
    """A model that is nothing but the network that reads has its settings itself."""
    return recipe.model if isinstance(recipe.model, PictureEncoderSettings) else recipe.model.encoder


class ImageInput(Input):
    kind: ClassVar[str] = "image"
    ahead: ClassVar[bool] = True

    def __init__(self, recipe: Recipe, section: Callable[[Any], Any] = _encoder_settings) -> None:
        """`section`: the part of a recipe that says which network reads the pictures."""
        super().__init__(recipe)
        self._section = section
        self._train: PictureStore | None = None  # the pictures whose mean and deviation are taken

    # ------------------------------------------------------------------------------------------------------- the files
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, Examples]:
        data = self.data
        cache = Path(data.cache).expanduser() if data.cache else cache
        sources = self._sources()
        if strict:  # test pictures are read when they are asked for
            sources.pop("test", None)
        stores = prepare_pictures(data, sources, cache, max_bad=data.max_bad, strict=strict)
        self._train = stores["train"]
        vocabulary = targets.learn(text for entry in self._train.entries for text in entry.texts)
        sights = self._sights(stores, cache) if strict else {}
        return {
            role: PictureExamples(store, sights.get(role), vocabulary, self.regions, self.max_length)
            for role, store in stores.items()
        }

    def _sources(self) -> dict[Role, PictureSource]:
        data = self.data
        places: dict[Role, str | None] = {"train": data.train, "valid": data.valid, "test": data.test}
        return sources_of(
            data, places, data.columns, data.format, valid_share=data.valid_share, valid_most=data.valid_most
        )

    def _sights(self, stores: dict[Role, PictureStore], cache: Path) -> dict[Role, Sight]:
        """How batches see the pictures of each split: pixels, or the features of a frozen network, kept on disk."""
        seed, reads = self.recipe.training.seed, self.settings
        if isinstance(reads, EfficientNetSettings) and reads.frozen:
            return frozen_sights(stores, self.data, reads, self._picture_encoder(pretrained=True), cache, seed)
        augment = self.data.augment
        return {role: Pixels(store, augment if role == "train" else None, seed) for role, store in stores.items()}

    def check(self, splits: dict[Role, Examples], vocabulary: Vocabulary) -> CheckReport:
        found: dict[Role, PictureExamples] = {
            role: one for role, one in splits.items() if isinstance(one, PictureExamples)
        }
        sides = self.data.columns.sides
        stores: dict[Role, PictureStore] = {role: one.store for role, one in found.items()}
        findings: list[Finding] = picture_findings(stores, self.data.max_bad)
        figures: dict[Role, SplitFigures] = {}
        for role, one in found.items():
            image = SideFigures(self.regions * len(one.store), 0.0, dict.fromkeys(PERCENTILES, self.regions))
            total, lengths = int(one.text_lengths.sum()), one.text_lengths
            spread = {p: int(np.percentile(lengths, p)) if len(lengths) else 0 for p in PERCENTILES}
            text = SideFigures(total, one.unknown / max(1, total), spread)
            figures[role] = SplitFigures(one.name, len(one.store), one.counts.bad, image, text, sides)
            findings += text_findings(role, one, self.max_length, sides[1])
        return CheckReport(figures, {sides[1]: vocabulary.size}, findings, {"regions of a picture": f"{self.regions}"})

    def test(self) -> tuple[list[Example], str]:
        source = self._sources().get("test")
        if source is None:
            raise self.no_test_data()
        with TemporaryDirectory(prefix="regard-pictures-") as folder:
            cache = Path(self.data.cache).expanduser() if self.data.cache else Path(folder)
            store = prepare_pictures(self.data, {"test": source}, cache, max_bad=self.data.max_bad)["test"]
            examples = [
                Example(
                    StoredPicture(entry.name, np.array(pixels.transpose(1, 2, 0))), entry.texts, entry.nouns or None
                )
                for entry, pixels in zip(store.entries, store.pixels, strict=True)
            ]
        return examples, f"{store.read.bad} of {source.where} that could not be used" if store.read.bad else ""

    # ---------------------------------------------------------------------------------- beside another: inputs/joint.py
    def in_list(self, file: Path, cells: Sequence[str]) -> list[str]:
        """Names of files in data.images, or else beside the list."""
        where = Path(self.data.images).expanduser() if self.data.images else file.parent
        return [str(where / cell) for cell in cells]

    def column(self, values: Mapping[str, Any], cache: Path, role: Role) -> PictureColumn:
        source = NamedPictures(values, role)
        store = store_of(source, form_of(self.data), cache, workers=self.data.workers)
        if role == "train":
            self._train = store
        return PictureColumn(values, store, self.regions, lambda: self._sights({role: store}, cache)[role])

    # ------------------------------------------------------------------------------------------------------- one's own
    def parse(self, words: Sequence[str]) -> list[str]:
        """Paths of pictures, members of a tar (images.tar/a.jpg), or rows of a corpus (corpus:shapes#7)."""
        return [word for word in words if word.strip()]

    def read(self, one: Any) -> PictureItem:
        """A path, bytes, an array, or what Pillow has opened."""
        if isinstance(one, PictureItem):
            return one
        features = one.features if isinstance(one, StoredPicture) else None
        pixels = one.pixels if isinstance(one, StoredPicture) else one
        return PictureItem(read_inputs([pixels], form_of(self.data))[0], features)

    def name(self, one: Any) -> str:
        return one.name if isinstance(one, StoredPicture) else name_of(one)

    def length(self, item: PictureItem) -> int:
        return self.regions

    def collate(self, items: Sequence[PictureItem]) -> Tensor:
        features = [item.features for item in items if item.features is not None]
        return torch.stack(features if len(features) == len(items) else [item.pixels for item in items])

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        return self._picture_encoder(decoder, pretrained=self._train is not None)

    def _picture_encoder(self, decoder: Any = None, *, pretrained: bool) -> PictureEncoder:
        """For a decoder, regions are brought to its width and told where they are; blocks may look at all of them."""
        s = self.settings
        body = build_body(s, self.data, pretrained=pretrained)  # before the blocks: first weights are drawn in order
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
        return PictureEncoder(
            body, colors=colors(s, self.data, self._train),
            frozen=isinstance(s, EfficientNetSettings) and s.frozen, **how,
        )  # fmt: skip

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

    # ----------------------------------------------------------------------------------------------------------- parts
    @property
    def data(self) -> Any:
        return self.recipe.data  # pyright: ignore[reportAttributeAccessIssue] (every recipe of a job has it)

    @property
    def settings(self) -> Any:
        return self._section(self.recipe)

    @property
    def max_length(self) -> int | None:
        """Most tokens of what is said of a picture."""
        return self.data.max_length if "max_length" in type(self.data).model_fields else None

    @property
    def grid(self) -> tuple[int, int]:
        """Rows × columns of the regions that a picture becomes."""
        with torch.device("meta"):
            return build_body(self.settings, self.data).grid

    @property
    def regions(self) -> int:
        rows, columns = self.grid
        return rows * columns
