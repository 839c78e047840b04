"""Download a repository of the Hugging Face hub, or find it in the hub's cache."""

import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from regard.errors import CallError, RegardError, pip_install


def snapshot(name: str, wanted: Sequence[str], kind: Literal["model", "dataset"] = "model") -> Path:
    """Return a folder with the files of OWNER/NAME that match a pattern of `wanted`. None of them is executed."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ModuleNotFoundError:
        raise CallError(
            f"hub:{name} needs huggingface_hub, which is not installed: {pip_install('huggingface_hub')}"
        ) from None
    try:
        return Path(snapshot_download(name, repo_type=kind, allow_patterns=list(wanted)))
    except HFValidationError as error:
        raise CallError(f"{name!r} is not a local folder or a name on the hub: {error}") from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise RegardError(
            f"cannot download the {kind} {name} from the hub: {str(error).splitlines()[0]}; "
            "it needs a network, or an earlier download in its cache (HF_HOME)"
        ) from None


# Untrusted files, which may be damaged or malicious.


def is_pickle(start: bytes) -> bool:
    """Return whether a file that begins with these bytes is a Python pickle, which can run code when it is opened."""
    return len(start) > 1 and start[0] == 0x80 and 2 <= start[1] <= 5


@contextmanager
def reading(where: Path | str) -> Iterator[None]:
    """Convert any error while reading a file into one message that names the file."""
    try:
        yield
    except RegardError:
        raise
    except MemoryError:
        raise RegardError(f"{where} needs more memory than this machine has") from None
    except Exception as problem:
        told = str(problem).splitlines()[:1] or [""]
        raise RegardError(f"{where} is damaged: {type(problem).__name__}: {told[0][:200]}") from problem


def require_memory_for(archive: Path) -> None:
    """Raise if a .zip or .npz, which may unpack to any size, would not fit in memory."""
    try:
        with zipfile.ZipFile(archive) as packed:
            size = sum(one.file_size for one in packed.infolist())
    except (OSError, zipfile.BadZipFile):
        return  # its reader reports what is wrong
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if size > memory / 2:
        raise RegardError(
            f"{archive} unpacks to {size / 1e9:,.1f} GB, more than half of the {memory / 1e9:,.1f} GB of this machine"
        )


# The user's cache, shared by all runs, for results that are expensive and can be computed again.


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
