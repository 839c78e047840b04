"""One trainer at a time in a folder: two would delete each other's unfinished checkpoints, and cut metrics off.

The system's own lock on `RUN/lock` (flock; on Windows, that of msvcrt) belongs to the process and goes with it, however
it dies: there is no stale lock to be removed. The file says who holds it.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from regard.errors import CallError
from regard.training.lock_file import LOCK
from regard.training.parallel import Parallel

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None
    import msvcrt

BEYOND = 2**30  # the byte of the file that is locked on Windows, where nobody can read a byte that is locked


@contextmanager
def locked(folder: Path, parallel: Parallel) -> Iterator[None]:
    """The folder is ours for the length of the block, or a `CallError` on all processes. Process 0 holds the lock."""
    handle: int | None = None
    is_new = not folder.exists()
    with parallel.main_first():
        if parallel.main:
            folder.mkdir(parents=True, exist_ok=True)
            handle = _take(folder / LOCK)
            if handle is None:
                raise CallError(
                    f"{folder} is being trained by {_holder(folder / LOCK)}: wait until it ends, stop it, or train in "
                    "another folder (-o)"
                )
    try:
        yield
    finally:
        if handle is not None:
            with suppress(PermissionError):  # Windows removes no open file
                (folder / LOCK).unlink(missing_ok=True)  # while it is still ours; whoever opened it before tries again
            os.close(handle)
            if is_new:
                with suppress(OSError):
                    folder.rmdir()  # a call that was refused before anything was written leaves nothing behind


def _take(file: Path) -> int | None:
    """An open file that holds the lock, or None if another process does."""
    while True:
        handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle)
        except (BlockingIOError, PermissionError):
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), file.stat()):
                os.ftruncate(handle, 0)
                os.write(handle, f"process {os.getpid()} on {socket.gethostname()}, since {_now()}\n".encode())
                return handle
        os.close(handle)  # the file was removed between the two calls: what we hold is no longer at its place


def _lock(handle: int) -> None:
    """Raise BlockingIOError, or PermissionError on Windows, if another process holds the lock."""
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    os.lseek(handle, BEYOND, os.SEEK_SET)
    msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # pyright: ignore
    os.lseek(handle, 0, os.SEEK_SET)


def _holder(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip() or "another process"
    except OSError:
        return "another process"


def _now() -> str:
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
