"""The user's cache, shared by all runs, for results that are expensive and can be computed again."""

import os
from pathlib import Path

from regard.errors import CallError


def user_cache() -> Path:
    """Return the folder REGARD_CACHE; else `regard` in the user's cache folder (XDG_CACHE_HOME, or ~/.cache)."""
    if chosen := os.environ.get("REGARD_CACHE"):
        return Path(chosen).expanduser()
    if caches := os.environ.get("XDG_CACHE_HOME"):
        return Path(caches) / "regard"
    try:
        return Path.home() / ".cache" / "regard"
    except RuntimeError as error:
        raise CallError("this user has no home folder: set REGARD_CACHE to a writable folder") from error
