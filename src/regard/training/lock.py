"""One trainer at a time in a folder: two would delete each other's unfinished checkpoints, and cut metrics off.

The system's own lock (flock) on `RUN/lock` belongs to the process and goes with it, however it dies: there is no stale
lock to be removed. The file says who holds it.
"""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from regard.errors import CallError
from regard.training.lock_file import LOCK
from regard.training.parallel import Parallel


@contextmanager
def locked(folder: Path, parallel: Parallel) -> Iterator[None]:
    """The folder is ours for the length of the block, or a `CallError` on all processes. Process 0 holds the lock."""
    refusal: str | None = None
    handle: int | None = None
    is_new = not folder.exists()
    if parallel.main:
        folder.mkdir(parents=True, exist_ok=True)
        handle = _take(folder / LOCK)
        refusal = None if handle is not None else f"{folder} is being trained by {_holder(folder / LOCK)}"
    if refusal := parallel.share(refusal):
        raise CallError(f"{refusal}: wait until it ends, stop it, or train in another folder (-o)")
    try:
        yield
    finally:
        if handle is not None:
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
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
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


def _holder(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip() or "another process"
    except OSError:
        return "another process"


def _now() -> str:
    return datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
