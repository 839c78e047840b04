"""From settings to stores of pictures, one for each split; decoded once, as long as nothing changes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from regard.corpora.pictures import PREFIX
from regard.data.cache import built_once
from regard.data.pairs import Bad, Columns
from regard.data.settings import Column, FileFormat
from regard.data.tables import Role
from regard.errors import RegardError
from regard.inputs.image.decode import Form
from regard.inputs.image.settings import PictureSettings
from regard.inputs.image.sources import Entry, PictureSource
from regard.inputs.image.store import VERSION, PictureStore, write_pictures

Tell = Callable[[str], None]


@runtime_checkable
class ReadsPictures(Protocol):
    """What a store is made of: pictures of files, or of a column."""

    @property
    def role(self) -> Role: ...
    def read(self) -> Iterator[Entry | Bad]: ...
    def key(self) -> list[Any]: ...


def form_of(settings: PictureSettings) -> Form:
    return Form(settings.height, settings.width, settings.channels, settings.fit, settings.max_pixels)


def sources_of(
    settings: PictureSettings,
    places: dict[Role, str | None],
    columns: Columns,
    format: FileFormat,
    *,
    valid_share: float,
    valid_most: int,
) -> dict[Role, PictureSource]:
    """The splits there are. A corpus, and a list with a column for it, bring their own; else some are held out."""
    train = places["train"]
    assert train is not None
    own_splits = train.startswith(PREFIX) or settings.split is not None
    found: dict[Role, PictureSource] = {}
    for role, where in places.items():
        where = where or (train if own_splits else None)
        if where is not None:
            split = settings.split if Path(where).suffix != ".npz" else None
            found[role] = PictureSource(where, role, columns, format, settings.images, split)
    if "valid" not in found:
        total = sum(not isinstance(item, Bad) for item in found["train"].read())
        share = min(valid_share, valid_most / max(1, total))
        whole = found["train"]
        found["train"] = replace(whole, part="kept", share=share)
        found["valid"] = replace(whole, part="held out", share=share)
    return {role: found[role] for role in places if role in found}


def prepare_pictures(
    settings: PictureSettings,
    sources: dict[Role, PictureSource],
    cache: Path,
    *,
    max_bad: float,
    strict: bool = True,
    tell: Tell = lambda message: None,
) -> dict[Role, PictureStore]:
    """A store for each split. `strict` refuses data of which more than `max_bad` is bad; `check` only counts it."""
    stores: dict[Role, PictureStore] = {}
    for role, source in sources.items():
        stores[role] = store_of(source, form_of(settings), cache, workers=settings.workers, tell=tell)
        name = f"data.{role}={source}"
        if source.part == "held out" and not len(stores[role]):
            raise RegardError(f"{name}: nothing was held out by data.valid_share; raise it, or give data.valid")
        if strict or not len(stores[role]):
            stores[role].read.refuse_if(name, max_bad)
    return stores


def store_of(
    source: ReadsPictures, form: Form, cache: Path, *, workers: int = 0, tell: Tell = lambda message: None
) -> PictureStore:
    def build(folder: Path) -> None:
        tell(f"decoding the pictures of {source}")
        write_pictures(folder, source.read(), form, name=str(source), workers=workers)

    key = [VERSION, source.key(), [form.height, form.width, form.channels, form.fit, form.max_pixels]]
    return PictureStore(built_once(cache, f"pictures-{source.role}", key, build))


def picture_columns(image: Column | None, text: Column | None, header: bool | None, side: str) -> Columns:
    return Columns(image, text, header, ("image", side))
