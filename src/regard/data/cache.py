"""Steps of preparing data, each done once as long as nothing changes.

Every step writes a folder of the cache whose name ends in a fingerprint of all that the step depends on, its key. A
folder is built under another name and renamed when it is complete, so a step that was killed leaves no result, and
processes that build the same step at the same time do not disturb each other.
"""

import json
import shutil
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

from regard.errors import RegardError
from regard.files import atomic


def cached_folder(cache: Path, step: str, key: Any) -> Path:
    """Where a step keeps its result; `key` is anything that JSON can hold."""
    return cache / f"{step}-{blake2b(json.dumps(key).encode(), digest_size=10).hexdigest()}"


def built_once(cache: Path, step: str, key: Any, build: Callable[[Path], None]) -> Path:
    """The folder of a step: as it is, if it is there, else as `build` fills it."""
    folder = cached_folder(cache, step, key)
    if folder.exists():
        return folder
    unfinished = cache / f".{step}-{uuid4().hex}"
    unfinished.mkdir(parents=True)
    try:
        build(unfinished)
        for path in unfinished.iterdir():
            atomic.flush(path)
        unfinished.rename(folder)
    except OSError:
        if not folder.exists():  # else another process was quicker, and what it built is the same
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def store_of(folder: Path, version: int, what: str) -> dict[str, Any]:
    """What the store.json of such a folder says: its files must be there as a whole, and of this version."""
    try:
        about = json.loads((folder / "store.json").read_text(encoding="utf-8"))
        complete = all((folder / name).stat().st_size == size for name, size in about["sizes"].items())
        if about["version"] != version or not complete:
            raise ValueError("not of this version, or not complete")
    except (OSError, ValueError, KeyError) as problem:
        raise RegardError(f"{folder}: is no usable store of {what} ({problem})") from None
    return about
