"""Fetch all files of a dataset in the layout that recipes name, into the folder REGARD_DATA, or `data`."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from regard.catalog import load_object
from regard.datasets.download import differs, download
from regard.datasets.table import DATA_SETS, DataSet
from regard.errors import CallError, RegardError, nearest


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
        load_object(f"regard.datasets.layout:{data.layout}")(aside, made)
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
