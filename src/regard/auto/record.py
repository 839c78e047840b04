"""The record of a run's source: its data, by path and digest, and the requested settings (RUN/source.json).

A run is never reused for other data. A request with other data and the same folder is refused; the error names both.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard import config
from regard.auto.given import as_path
from regard.errors import CallError
from regard.files import atomic
from regard.files.shards import files_of, is_pattern

RECORD = "source.json"
START_AGAIN = "--fresh (in Python overwrite=True) starts again in it, another folder (-o) keeps both"
WHOLE = 1 << 30  # bytes of data up to which all of it is read for the digest
ENDS = 1 << 20  # bytes that are read at both ends of each file in larger data


@dataclass(frozen=True)
class Source:
    """The requested data. `name`: as the user wrote it, or a name for a Python object."""

    name: str
    digest: str
    job: str | None = None
    time_limit: float | None = None

    def differences(self, now: "Source") -> list[str]:
        """Return the requests that differ from the earlier ones, each with both values."""
        found = []
        if self.digest != now.digest:
            same = self.name == now.name
            found.append(f"{self.name} has changed since" if same else f"data: {self.name} before, {now.name} now")
        for what, before, wanted in (("--job", self.job, now.job), ("--time-limit", self.time_limit, now.time_limit)):
            if wanted is not None and wanted != before:
                found.append(f"{what}: {'none' if before is None else before} before, {wanted} now")
        return found

    def write(self, folder: Path) -> None:
        atomic.write_text(folder / RECORD, json.dumps(asdict(self), ensure_ascii=False, indent=1))


def recorded(folder: Path) -> Source | None:
    """Return the source of the run in a folder, if it was made from data."""
    try:
        return Source(**json.loads((folder / RECORD).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def source_of(data: Any, run: Path, **requested: Any) -> Source:
    """Return the source that `data` is. A Python object is written to a folder for its digest."""
    if isinstance(data, str | Path):
        return Source(named(str(data)), digest(str(data), run), **requested)
    with TemporaryDirectory(prefix="regard-") as folder:
        place = as_path(data, Path(folder))
        if not any(Path(folder).iterdir()):  # a list of files
            return Source(named(place), digest(place, run), **requested)
        return Source(f"data from Python ({type(data).__name__})", digest(folder), **requested)


def named(data: str) -> str:
    """Return the name of data: the same for ./pairs.tsv and pairs.tsv."""
    return ",".join(str(Path(part.strip())) for part in data.split(","))


def digest(data: str, run: Path | None = None) -> str:
    """Return the digest of names and contents of all files, except those of the run. For a dataset of the hub, its
    name."""
    files = [*_files(data, run)]
    found = blake2b(digest_size=16)
    sizes = [file.stat().st_size for _, file in files]
    whole = sum(sizes) <= WHOLE
    for (name, file), size in zip(files, sizes, strict=True):
        found.update(f"{name}\0{size}\0".encode())
        with file.open("rb") as opened:
            if whole or size <= 2 * ENDS:
                while piece := opened.read(ENDS):
                    found.update(piece)
                continue
            found.update(opened.read(ENDS))
            opened.seek(-ENDS, 2)
            found.update(opened.read())
    return found.hexdigest() if files else data


def _files(data: str, run: Path | None) -> Iterator[tuple[str, Path]]:
    """Yield names and files; a name does not depend on the location of the data."""
    whole = is_pattern(data) or Path(data).expanduser().exists()
    places = [place for part in ([data] if whole else data.split(",")) for place in files_of(part.strip())]
    for number, one in enumerate(places):
        if one.is_file():
            yield f"{number}", one
        elif one.is_dir():
            for file in sorted(one.rglob("*")):
                if file.is_file() and not (run and file.absolute().is_relative_to(run.absolute())):
                    yield str(file.relative_to(one)), file


def _trained_on(folder: Path) -> str:
    """Return what a run with a recipe of another kind was trained on."""
    data = config.load_yaml(folder / "config.yaml").get("data") if (folder / "config.yaml").is_file() else None
    return str(data["train"]) if isinstance(data, dict) and "train" in data else "other data"


def refuse_other_source(folder: Path, now: Source) -> None:
    """Raise if the run in a folder was made for another source, or for none."""
    before = recorded(folder)
    if before is None:
        raise CallError(f"{folder} holds a run of {_trained_on(folder)}, not of {now.name}: {START_AGAIN}")
    if found := before.differences(now):
        raise CallError(
            f"{folder} holds a run of other data or settings:\n  " + "\n  ".join(found) + f"\n{START_AGAIN}"
        )
