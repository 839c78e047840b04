"""Search your pictures by a sentence or by another picture.

    index = regard.load("runs/match").index("photos/")      every picture as a vector of length 1
    index.search("two dogs on a beach", k=5)                the k pictures with the largest cosine
    index.save("photos.index");  regard.open_index("photos.index")

An index is one safetensors file: the vectors; in its header the names, size and time of each file, and the run that
made it. Nothing in it can execute. A new index reuses the vectors of unchanged files.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.catalog import load_object
from regard.errors import CallError, RegardError
from regard.files import atomic
from regard.inputs.image.decode import BadPictureError, decode_all
from regard.inputs.image.input import PictureItem, form_of
from regard.inputs.image.source import PictureSource
from regard.inputs.media_files import Bytes, is_tar, members
from regard.settings.recipe import WEIGHTS
from regard.tasks.vector.match import Match

VERSION = 1
AT_ONCE = 512  # pictures that are loaded before each encoding
HEADER = "regard"
Stamp = tuple[int, int]  # size in bytes, time of last change


class SearchHit(NamedTuple):
    """A picture and its cosine with the query."""

    name: str
    score: float


class Maker(NamedTuple):
    """The encoder of pictures with its model; `run` and `digest` identify the weights."""

    output: Match
    model: Any
    run: Path
    digest: str

    def texts(self, texts: Sequence[str]) -> Float[Tensor, "N D"]:
        return self.output.text_vectors(self.model, texts)

    def pictures(self, pictures: Sequence[Any]) -> Float[Tensor, "N D"]:
        return self.output.image_vectors(self.model, pictures)


@dataclass(frozen=True)
class PictureIndex:
    """Pictures of a folder as vectors, ordered by name; `bad` maps unreadable pictures to reasons."""

    maker: Maker
    folder: Path
    stamps: dict[str, Stamp]
    vectors: Float[Tensor, "N D"]
    bad: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.stamps)

    def search(self, text: str, k: int = 10) -> list[SearchHit]:
        """Return the pictures that match a text best."""
        return self._nearest(self.maker.texts([text])[0], k)

    def like(self, picture: Any, k: int = 10) -> list[SearchHit]:
        """Return the pictures most similar to a picture: a path, bytes, an array or a Pillow image."""
        return self._nearest(self.maker.pictures([picture])[0], k)

    def _nearest(self, query: Float[Tensor, " D"], k: int) -> list[SearchHit]:
        scores = self.vectors @ query
        best = scores.topk(min(k, len(scores)))
        names = list(self.stamps)
        return [
            SearchHit(names[row], score) for row, score in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def save(self, path: str | Path) -> Path:
        """Write the index; the file is complete or not written at all."""
        about = {
            "version": VERSION, "run": str(self.maker.run.resolve()), "digest": self.maker.digest,
            "folder": str(self.folder.resolve()), "stamps": self.stamps, "bad": self.bad,
        }  # fmt: skip
        return atomic.write_tensors(path, {"vectors": self.vectors}, {HEADER: json.dumps(about, ensure_ascii=False)})


# ------------------------------------------------------------------------------------------------------------- reading
class Stored(NamedTuple):
    """Contents of an index file."""

    run: Path
    digest: str
    folder: Path
    stamps: dict[str, Stamp]
    vectors: Float[Tensor, "N D"]
    bad: dict[str, str]


def read_index(path: str | Path) -> Stored:
    path = Path(path)
    if not path.is_file():
        raise CallError(f"{path}: no such index; `regard index RUN FOLDER -o {path}` makes one")
    try:
        with safe_open(path, "pt") as file:
            about = json.loads((file.metadata() or {})[HEADER])
            vectors = file.get_tensor("vectors")
        if about["version"] != VERSION or len(about["stamps"]) != len(vectors):
            raise ValueError("of another version, or incomplete")
        stamps = {name: (size, changed) for name, (size, changed) in about["stamps"].items()}
        return Stored(Path(about["run"]), about["digest"], Path(about["folder"]), stamps, vectors, about["bad"])
    except (OSError, SafetensorError, ValueError, KeyError, TypeError) as problem:
        raise RegardError(f"{path}: not a usable index of pictures ({problem})") from None


def open_index(path: str | Path, run: str | Path | None = None) -> PictureIndex:
    """Load a saved index, with the run that made it; `run` is the current folder of that run, if it was moved."""
    stored = read_index(path)
    where = stored.run if run is None else Path(run)
    if not where.is_dir():
        raise CallError(f"{path} was made by the run {where}, which is missing: give its folder with --run RUN")
    maker = maker_of(load_object("regard.loading:load")(where))
    if maker.digest != stored.digest:
        raise CallError(f"{path} was made with other weights than those of {where}: make it again with `regard index`")
    return PictureIndex(maker, stored.folder, stored.stamps, stored.vectors, stored.bad)


def maker_of(run: Any) -> Maker:
    if not isinstance(run.job.output, Match):
        raise CallError(f"{run.folder} is a run of the job {run.recipe.job!r}: only a `match` run can index pictures")
    weights = (run.folder / WEIGHTS).read_bytes()
    return Maker(run.job.output, run.model, run.folder, blake2b(weights, digest_size=10).hexdigest())


# -------------------------------------------------------------------------------------------------------------- making
def make_index(
    run: Any,
    folder: str | Path,
    *,
    known: Stored | None = None,
    report: Callable[[str], None] = lambda message: None,
) -> PictureIndex:
    """Index every picture in a folder and its subfolders, or in a plain .tar. Skip other files.

    `known`: an earlier index, whose vectors are reused for unchanged files.
    """
    folder, maker = Path(folder).expanduser(), maker_of(run)
    places = dict(_pictures(folder))
    if not places:
        raise CallError(f"{folder}: no pictures found")
    same = known is not None and known.digest == maker.digest and known.folder == folder.resolve()
    kept: dict[str, Tensor] = {}
    if known is not None and same:
        kept = {
            name: vector
            for (name, stamp), vector in zip(known.stamps.items(), known.vectors, strict=True)
            if name in places and places[name][1] == stamp
        }
    new = [name for name in places if name not in kept]
    if kept:
        report(f"{len(kept):,} unchanged pictures are reused; {len(new):,} are read")
    bad: dict[str, str] = {}
    for start in range(0, len(new), AT_ONCE):
        kept |= _encode_files(maker, {name: places[name][0] for name in new[start : start + AT_ONCE]}, bad)
    names = [name for name in places if name in kept]
    if not names:
        raise RegardError(f"{folder}: none of its {len(places):,} pictures can be read: {_first(bad)}")
    vectors = torch.stack([kept[name] for name in names])
    return PictureIndex(maker, folder, {name: places[name][1] for name in names}, vectors, bad)


def _encode_files(maker: Maker, files: dict[str, Bytes], bad: dict[str, str]) -> dict[str, Tensor]:
    data = maker.output.recipe.data
    found = dict(zip(files, decode_all(list(files.values()), form_of(data), data.workers), strict=True))
    bad |= {name: str(one) for name, one in found.items() if isinstance(one, BadPictureError)}
    good = {
        name: PictureItem(torch.from_numpy(one.pixels))
        for name, one in found.items()
        if not isinstance(one, BadPictureError)
    }
    return dict(zip(good, maker.pictures(list(good.values())), strict=True))


def _pictures(folder: Path) -> Iterator[tuple[str, tuple[Bytes, Stamp]]]:
    """Return files by name, those with the suffix of a picture; skip hidden files."""
    if not folder.is_dir() and not is_tar(folder):
        raise CallError(f"{folder}: {'not a folder or .tar' if folder.exists() else 'no such folder'}")
    for name, place in members(folder).items():
        if PictureSource.is_one(name):
            stat = Path(place.path).stat()
            yield name, (place, (stat.st_size if place.size is None else place.size, stat.st_mtime_ns))


def _first(bad: dict[str, str], most: int = 3) -> str:
    return "; ".join(f"{name}: {why}" for name, why in list(bad.items())[:most])


def about_bad(bad: dict[str, str]) -> Sequence[str]:
    """Return a sentence on the pictures that could not be read, if any."""
    plural = "s" if len(bad) != 1 else ""
    return [f"{len(bad):,} picture{plural} could not be read (skipped): {_first(bad)}"] if bad else []
