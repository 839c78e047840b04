"""Untrusted files, which may be damaged or malicious."""

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import RegardError


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
