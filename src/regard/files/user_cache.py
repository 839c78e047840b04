"""Where all runs of a user keep what costs much to make and can be made again."""

import os
from pathlib import Path


def user_cache() -> Path:
    """The folder REGARD_CACHE; else `regard` among the user's caches (XDG_CACHE_HOME, or ~/.cache)."""
    if chosen := os.environ.get("REGARD_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "regard"
