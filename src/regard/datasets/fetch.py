"""Fetch all files of a dataset in the layout that recipes name, into the folder REGARD_DATA, or `data`."""

import gzip
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen
from uuid import uuid4

import numpy as np

from regard.catalog import load_object
from regard.datasets.table import DATA_SETS, DataSet, Remote
from regard.errors import CallError, RegardError, nearest

# Download a file. An interrupted download is resumed, and the file gets its name only if its checksum is right.
#
# The incomplete file is FILE.part. The rest of it is requested with HTTP `Range`; a server without support for that
# sends the whole file again.

TIMEOUT = 30  # seconds without a byte
PIECE = 1 << 20
PARTIAL, TOO_FAR = 206, 416  # HTTP status: partial content; range not satisfiable


def download(remote: Remote, folder: Path) -> Path:
    """Return the file in a folder; download it if it is not there."""
    file = folder / remote.name
    if file.exists():
        return file
    part = file.with_name(file.name + ".part")
    have = part.stat().st_size if part.exists() else 0
    more = f", from byte {have:,} on" if have else ""
    print(f"fetching {remote.url}{more}", file=sys.stderr, flush=True)
    try:
        headers = {"User-Agent": "regard", **({"Range": f"bytes={have}-"} if have else {})}
        with urlopen(Request(remote.url, headers=headers), timeout=TIMEOUT) as answer:
            folder.mkdir(parents=True, exist_ok=True)
            goes_on = have > 0 and answer.status == PARTIAL
            with part.open("ab" if goes_on else "wb") as out:
                before = out.tell()
                shutil.copyfileobj(answer, out, PIECE)
                missing = int(answer.headers.get("Content-Length") or 0) - (out.tell() - before)
    except HTTPError as problem:
        if not (problem.code == TOO_FAR and have):
            raise RegardError(f"{remote.url}: the server returned {problem.code} {problem.reason}") from None
        missing = 0
    except (URLError, OSError) as problem:
        reason = getattr(problem, "reason", None) or problem
        raise RegardError(
            f"{remote.url} cannot be reached ({reason}). With a network, the same command resumes; docs/datasets.md "
            "describes how to get the files manually"
        ) from None
    if missing > 0:
        raise RegardError(
            f"{remote.url}: the connection ended {missing:,} bytes early; run the same command again to resume"
        )
    if wrong := differs(part, remote.digest):
        part.unlink()
        raise RegardError(f"{remote.url}: {wrong}: the file has changed on the server; it was deleted")
    part.rename(file)
    return file


def differs(file: Path, digest: str) -> str:
    """Return how a file differs from this digest; empty if it matches, or if no digest is known."""
    if not digest:
        return ""
    kind, _, wanted = digest.partition(":")
    with file.open("rb") as opened:
        found = str(sum(1 for _ in opened)) if kind == "lines" else hashlib.file_digest(opened, kind).hexdigest()
    return "" if found == wanted else f"its {kind} are {found}, not {wanted}"


def data_folder() -> Path:
    return Path(os.environ.get("REGARD_DATA") or "data").expanduser()


def fetch(name: str, folder: str | Path | None = None, *, mirror: str | None = None) -> Path:
    """Return the folder of a dataset; fetch it if it is missing. `mirror`: an address with a folder per dataset."""
    if name not in DATA_SETS:
        raise CallError(f"unknown dataset: {name!r}{nearest(name, DATA_SETS)}; `regard data` lists them")
    return fetch_set(name, DATA_SETS[name], data_folder() if folder is None else Path(folder), mirror)


def fetch_set(name: str, data: DataSet, root: Path, mirror: str | None = None) -> Path:
    """Fetch into a temporary folder, which is renamed when its layout is complete."""
    place = root / name
    lacking = [file for file in data.files if not (place / file).exists()]
    if not lacking:
        return place
    if place.exists() and any(place.iterdir()):
        raise CallError(
            f"{place} exists, but lacks {', '.join(lacking)}: move it away, or choose another folder with -o"
        )
    aside, made = root / f".{name}.fetched", root / f".{name}-{uuid4().hex}"
    for remote in data.remotes:
        download(replace(remote, url=f"{mirror.rstrip('/')}/{name}/{remote.name}") if mirror else remote, aside)
    made.mkdir()
    try:
        load_object(f"regard.datasets.fetch:{data.layout}")(aside, made)
        for file, digest in data.files.items():
            if not (made / file).exists():
                raise RegardError(f"{name}: {file} is missing in the download: its publishers have changed it")
            if wrong := differs(made / file, digest):
                raise RegardError(f"{name}: {file}: {wrong}: its publishers have changed it")
        if place.exists():
            place.rmdir()
        made.rename(place)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    shutil.rmtree(aside)
    return place


# Convert published files to those that recipes read. Each function: (fetched folder, output folder).

CLASSES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag"]


def as_they_are(fetched: Path, into: Path) -> None:
    for file in fetched.iterdir():
        shutil.copyfile(file, into / file.name)


def unpack_archive(fetched: Path, into: Path) -> None:
    for file in fetched.glob("*.gz"):
        with gzip.open(file) as packed, (into / file.stem).open("wb") as out:
            shutil.copyfileobj(packed, out)


def fashion_mnist(fetched: Path, into: Path) -> None:
    """Convert IDX files to arrays; the header is 16 bytes for pictures, 8 for labels."""

    def read(name: str, header: int) -> np.ndarray:
        with gzip.open(fetched / f"{name}-ubyte.gz") as packed:
            return np.frombuffer(packed.read(), np.uint8, offset=header)

    arrays = {}
    for role, name in (("train", "train"), ("test", "t10k")):
        arrays[f"x_{role}"] = read(f"{name}-images-idx3", 16).reshape(-1, 28, 28)
        arrays[f"y_{role}"] = read(f"{name}-labels-idx1", 8)
    np.savez_compressed(into / "fashion_mnist.npz", classes=np.array([*CLASSES, "Ankle boot"]), **arrays)


def flickr8k(fetched: Path, into: Path) -> None:
    """Convert photos in a tar and a list with the split of each."""
    with zipfile.ZipFile(fetched / "Flickr8k_text.zip") as texts:
        roles = {
            photo: role
            for role, part in (("train", "train"), ("valid", "dev"), ("test", "test"))
            for photo in _text(texts.read(f"Flickr_8k.{part}Images.txt")).split()
        }
        rows = [line.partition("\t") for line in _text(texts.read("Flickr8k.token.txt")).splitlines()]
    said = (
        (photo, index, roles[photo], caption)
        for (photo, _, index), caption in ((name.partition("#"), caption) for name, _, caption in rows)
        if photo in roles
    )
    _write_table(into / "captions.tsv", ("image", "index", "split", "caption"), said)
    with zipfile.ZipFile(fetched / "Flickr8k_Dataset.zip") as photos:
        wanted = ((PurePosixPath(name).name, name) for name in photos.namelist() if name.endswith(".jpg"))
        _write_tar(into / "images.tar", ((short, photos.read(name)) for short, name in wanted if short in roles))


def fsdd(fetched: Path, into: Path) -> None:
    with zipfile.ZipFile(fetched / "master.zip") as archive:
        names = sorted(name for name in archive.namelist() if "/recordings/" in name and name.endswith(".wav"))
        if len(names) != 3000:
            raise RegardError(f"fsdd: {len(names):,} recordings, not 3,000: its publishers have changed it")
        _write_tar(into / "recordings.tar", ((PurePosixPath(name).name, archive.read(name)) for name in names))


def librispeech(fetched: Path, into: Path) -> None:
    """Keep the recordings in their archives, and write a list for each part: path and text, in lower case."""
    for role, part in (("train", "train-clean-5"), ("valid", "dev-clean-2")):
        with tarfile.open(fetched / f"{part}.tar.gz") as archive:
            archive.extractall(into, filter="data")
        texts = sorted((into / "LibriSpeech" / part).rglob("*.trans.txt"))
        rows = (
            (str((file.parent / f"{number}.flac").relative_to(into)), text.lower())
            for file in texts
            for number, _, text in (line.partition(" ") for line in file.read_text(encoding="utf-8").splitlines())
        )
        _write_table(into / f"{role}.tsv", ("path", "text"), rows)


def squad(fetched: Path, into: Path) -> None:
    """Write the whole data, and every eighth article, which trains in minutes."""
    as_they_are(fetched, into)
    whole = json.loads((fetched / "train-v1.1.json").read_text(encoding="utf-8"))
    part = {**whole, "data": whole["data"][::8]}
    (into / "train-part-v1.1.json").write_text(json.dumps(part, ensure_ascii=False), encoding="utf-8")


def trec(fetched: Path, into: Path) -> None:
    """Convert `DESC:manner How did …` to coarse, fine, question."""
    for role, name in (("train", "train_5500"), ("test", "TREC_10")):
        lines = (fetched / f"{name}.label").read_text(encoding="latin-1").splitlines()
        split = (line.partition(" ") for line in lines if line)
        _write_table(
            into / f"{role}.tsv", ("coarse", "fine", "question"),
            ((*label.split(":", 1), question) for label, _, question in split),
        )  # fmt: skip


def _text(content: bytes) -> str:
    return content.decode("utf-8")


def _write_table(file: Path, header: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    with file.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines("\t".join(row) + "\n" for row in (header, *rows))


def _write_tar(file: Path, members: Iterator[tuple[str, bytes]]) -> None:
    """Write a reproducible tar, without times and owners."""
    with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members:
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
