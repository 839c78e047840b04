"""Pictures and what is said of them, for every job that learns from captions: sources, stores, a tokenizer.

files → sources → stores → sights: pixels, changed for training, or the features of a frozen network, kept on disk
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from regard.data.tables import Role
from regard.data.tokenizer import Tokenizer
from regard.encoders.image_input import PictureEncoder
from regard.errors import CallError
from regard.inputs.image.batches import Pixels, Sight
from regard.inputs.image.pictures import frozen_sights
from regard.inputs.image.prepare import picture_columns, prepare_pictures, sources_of
from regard.inputs.image.settings import EfficientNetSettings
from regard.inputs.image.sources import PictureSource
from regard.inputs.image.store import PictureStore
from regard.outputs.text.caption_settings import CaptionDataSettings
from regard.settings.base import Settings


def caption_sources(data: CaptionDataSettings) -> dict[Role, PictureSource]:
    """Where the pictures of each split are."""
    return sources_of(
        data, {"train": data.train, "valid": data.valid, "test": data.test},
        picture_columns(data.image, data.caption, data.header, "caption"), data.format,
        valid_share=data.valid_share, valid_most=data.valid_most,
    )  # fmt: skip


def cache_of(data: CaptionDataSettings, folder: Path) -> Path:
    """Where prepared data is kept: where the user says, or in the folder of the run."""
    return Path(data.cache).expanduser() if data.cache else folder


def training_stores(data: CaptionDataSettings, cache: Path) -> dict[Role, PictureStore]:
    """What training reads; the test pictures are read when they are asked for."""
    sources = caption_sources(data)
    sources.pop("test", None)
    return prepare_pictures(data, sources, cache, max_bad=data.max_bad)


def checked_stores(data: CaptionDataSettings, folder: Path) -> dict[Role, PictureStore]:
    """All splits, whatever is wrong with them: for the data check."""
    return prepare_pictures(data, caption_sources(data), cache_of(data, folder), max_bad=data.max_bad, strict=False)


@contextmanager
def test_store(data: CaptionDataSettings) -> Iterator[PictureStore]:
    """The test pictures, for as long as they are needed."""
    source = caption_sources(data).get("test")
    if source is None:
        raise CallError("the recipe has no test data: give data.test=FILE")
    with TemporaryDirectory(prefix="regard-pictures-") as folder:
        yield prepare_pictures(data, {"test": source}, cache_of(data, Path(folder)), max_bad=data.max_bad)["test"]


def skipped(store: PictureStore) -> dict[str, str]:
    """A note for the scores, where some of the test pictures could not be used."""
    return {"skipped": f"{store.read.bad} of {store.name} that could not be used"} if store.read.bad else {}


def learned_tokenizer(data: CaptionDataSettings, train: PictureStore) -> Tokenizer:
    how = data.tokenizer
    texts = (text for entry in train.entries for text in entry.texts)
    return Tokenizer.train(texts, how.kind, size=how.size, min_frequency=how.min_frequency, lowercase=how.lowercase)


def frozen(encoder: Settings) -> bool:
    return isinstance(encoder, EfficientNetSettings) and encoder.frozen


def sights_of(
    stores: dict[Role, PictureStore],
    data: CaptionDataSettings,
    reads: Settings,
    build: Callable[[], PictureEncoder],
    cache: Path,
    seed: int,
) -> dict[Role, Sight]:
    """How batches see the pictures of each split. `reads`: settings of the encoder; `build`: it, with its weights."""
    if isinstance(reads, EfficientNetSettings) and reads.frozen:
        return frozen_sights(stores, data, reads, build(), cache, seed)
    return {role: Pixels(store, data.augment if role == "train" else None, seed) for role, store in stores.items()}
