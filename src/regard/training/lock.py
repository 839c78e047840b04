"""A lock so that only one process trains in a folder: two would delete each other's checkpoints and truncate metrics.

The lock of the operating system on `RUN/lock` (flock; msvcrt on Windows) is released when the process dies, however
that happens: stale locks cannot occur. The file names the process that holds it.
"""

import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.errors import CallError

if TYPE_CHECKING:
    from regard.training.parallel import Parallel

LOCK = "lock"


class Holder(NamedTuple):
    process: int
    host: str


def holder(file: Path) -> Holder | None:
    """Return the process that wrote the lock file, if the file exists; the process may be dead."""
    try:
        found = re.match(r"process (\d+) on (\S+), since", file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return None if found is None else Holder(int(found[1]), found[2])


try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None
    import msvcrt

BEYOND = 2**30  # the locked byte of the file on Windows, where a locked byte cannot be read


@contextmanager
def lock_folder(folder: Path, parallel: "Parallel") -> Iterator[None]:
    """Hold the lock of the folder for the block (in process 0), or raise a `CallError` in all processes."""
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
            with suppress(PermissionError):  # Windows cannot remove an open file
                (folder / LOCK).unlink(missing_ok=True)  # while locked; a process that opened it tries again
            os.close(handle)
            if is_new:
                with suppress(OSError):
                    folder.rmdir()  # a refused call that has written nothing leaves no folder


def _take(file: Path) -> int | None:
    """Return an open file that holds the lock, or None if another process holds it."""
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
        os.close(handle)  # the file was removed between the two calls: our lock is on a deleted file


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


# Ctrl-C and SIGTERM: finish the step, save, exit. A second Ctrl-C exits at once and loses only the last steps.


class Stopped(KeyboardInterrupt):
    """Training was stopped by a signal and has saved its state; the same call resumes it. Exit code 130."""


class Interrupt:
    """Signal handler while open; `asked` is whether a stop was requested."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.asked = False
        self._say = report
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():  # Python allows handlers in the main thread only
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
        self._say("stopping after this step; Ctrl-C again stops at once, without saving")
