"""Cached steps of preparing data; each is repeated only if its key changes.

Every step writes a folder of the cache whose name ends in a fingerprint of everything that the step depends on, its
key. A folder is built under another name, and renamed when it is complete and on disk. So a killed step leaves no
result, and processes that build the same step at the same time do not conflict.

`B2SUMS` in it has the BLAKE2b digest of each file (`b2sum -c` reads it, too). They are checked at every use, because a
flipped bit would silently change the trained model. A damaged folder is built again.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

from regard.files import atomic

SUMS = "B2SUMS"


def built_once(cache: Path, step: str, key: Any, build: Callable[[Path], None]) -> Path:
    """Return the folder of a step; `build` fills it if it is missing or damaged.

    `key` is any JSON value.
    """
    folder = cache / f"{step}-{blake2b(json.dumps(key).encode(), digest_size=10).hexdigest()}"
    aside = cache / f".{step}-{uuid4().hex}"
    if folder.exists():
        damage = damage_of(folder)
        if damage is None:
            return folder
        print(f"{folder} is damaged ({damage}); it is built again", file=sys.stderr)
        with suppress(FileNotFoundError):  # another process was faster
            folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        build(aside)
        files = sorted(aside.iterdir())
        (aside / SUMS).write_text("".join(f"{_digest(file)}  {file.name}\n" for file in files), encoding="utf-8")
        for path in (*files, aside / SUMS, aside):
            atomic.flush(path)
        aside.rename(folder)
        atomic.flush(cache)
    except OSError:
        if not folder.exists():  # otherwise another process was faster, and its result is the same
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def damage_of(folder: Path) -> str | None:
    """Return what is wrong with a cached folder, or None."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").split("\n")
        sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines if line)}
        present = {path.name for path in folder.iterdir()} - {SUMS}
        if different := sums.keys() ^ present:
            return f"{min(different)} is {'missing' if min(different) in sums else 'none of its files'}"
        changed = (name for name, digest in sums.items() if _digest(folder / name) != digest)
        return next((f"{name} has changed since it was written" for name in changed), None)
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, UnicodeDecodeError) as error:
        return f"it cannot be read: {error}"


def _digest(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "blake2b").hexdigest()
