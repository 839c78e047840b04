"""Where all runs of a user keep what costs much to make and can be made again."""

import os
from pathlib import Path

from regard.errors import CallError


def user_cache() -> Path:
    """The folder REGARD_CACHE; else `regard` among the user's caches (XDG_CACHE_HOME, or ~/.cache)."""
    if chosen := os.environ.get("REGARD_CACHE"):
        return Path(chosen).expanduser()
    if caches := os.environ.get("XDG_CACHE_HOME"):
        return Path(caches) / "regard"
    try:
        return Path.home() / ".cache" / "regard"
    except RuntimeError as error:
        raise CallError("this user has no home folder: set REGARD_CACHE to a folder that can be written") from error
