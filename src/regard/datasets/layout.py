"""Convert published files to those that recipes read. Each function: (fetched folder, output folder)."""

import gzip
import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from regard.errors import RegardError

CLASSES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag"]


def as_they_are(fetched: Path, into: Path) -> None:
    for file in fetched.iterdir():
        shutil.copyfile(file, into / file.name)


def unpacked(fetched: Path, into: Path) -> None:
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
