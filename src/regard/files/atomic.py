"""Atomic writing: a file or folder is complete or absent.

    write to NAME.part → fsync → rename to NAME → fsync the folder

A rename is atomic: a reader of NAME finds the old content or the new one, also after a crash or a full disk. One
process at a time writes a file; NAME.part of a killed process is overwritten by the next. Links are followed. Special
files (/dev/null, a pipe) are written to directly.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import CallError, RegardError

if TYPE_CHECKING:
    from torch import Tensor

PART = ".part"
LONGEST_NAME = 255  # bytes, on nearly every file system


def write_text(path: str | Path, text: str) -> Path:
    return write_with(path, lambda part: part.write_text(text, encoding="utf-8"))


def write_bytes(path: str | Path, content: bytes) -> Path:
    return write_with(path, lambda part: part.write_bytes(content))


def write_with(path: str | Path, write: Callable[[Path], object]) -> Path:
    """Call `write` with a temporary file, which becomes `path` if no error occurs."""
    path = Path(path)
    with explain_errors(path):
        place = path.resolve()
        if place.exists() and not place.is_file():
            write(place)
            return path
        part = part_of(place)
        try:
            write(part)
            flush(part)
            os.replace(part, place)
            flush(place.parent)
        finally:
            part.unlink(missing_ok=True)
    return path


def write_tensors(path: str | Path, tensors: "Mapping[str, Tensor]", metadata: dict[str, str] | None = None) -> Path:
    """Write tensors as safetensors."""
    return write_with(path, lambda part: save_tensors(part, tensors, metadata))


def save_tensors(path: Path, tensors: "Mapping[str, Tensor]", metadata: dict[str, str] | None = None) -> None:
    """Write tensors without a temporary file, into a folder that is written atomically. Safetensors needs dense
    tensors; a view of another one is copied."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    dense = {
        name: value.contiguous() if value.untyped_storage().nbytes() == value.nbytes else value.clone()
        for name, value in ((name, value.detach()) for name, value in tensors.items())
    }

    path.touch()
    mode = path.stat().st_mode & 0o777  # permissions of the umask; safetensors restricts a file to its owner
    try:
        save_file(dense, path, metadata)
        path.chmod(mode)
    except SafetensorError as error:  # the library's error, also for a full disk
        raise OSError(str(error)) from error


def write_folder(folder: Path, fill: Callable[[Path], object]) -> None:
    """Write a folder atomically; `fill` fills a temporary one. An existing folder is replaced."""
    with explain_errors(folder):
        part, old = part_of(folder), _old_of(folder)
        recover(folder)
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            fill(part)
            for path in (*part.rglob("*"), part):
                flush(path)
            if folder.exists():  # a non-empty folder cannot be replaced by a rename
                shutil.rmtree(old, ignore_errors=True)
                folder.rename(old)
            part.rename(folder)
            flush(folder.parent)
        finally:
            shutil.rmtree(part, ignore_errors=True)
            recover(folder)
        shutil.rmtree(old, ignore_errors=True)


def recover(folder: Path) -> None:
    """Put back the old folder if a crash came between the two renames of `write_folder`."""
    if not folder.exists() and (old := _old_of(folder)).is_dir():
        old.rename(folder)


def _old_of(folder: Path) -> Path:
    return part_of(folder.with_name(folder.name + ".old"))


def flush(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def part_of(path: Path) -> Path:
    """Return NAME.part, shortened if the file system requires it."""
    name = os.fsencode(path.name)
    if len(name) + len(PART) <= LONGEST_NAME:
        return path.with_name(path.name + PART)
    return path.with_name(name[: LONGEST_NAME - len(PART)].decode(errors="ignore") + PART)


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # the reader of a pipe has closed it, which is not an error
        raise
    except OSError as error:
        if not path.absolute().parent.is_dir():
            raise CallError(f"{path} cannot be written: no such folder: {path.absolute().parent}") from None
        raise RegardError(
            f"{path} cannot be written ({error.strerror or error}); earlier content is unchanged"
        ) from error


# A file that takes hours to write, and can be resumed.
#
#     NAME.part        what is written so far
#     NAME.part.json   the number of inputs, the number of bytes, and the key of the job
#     NAME             the complete file
#
# The state is written after each piece. Bytes beyond it in NAME.part, such as half a line after a crash, are cut off.
# Another key starts again from the beginning.


class ResumableFile:
    """A resumable file. `done` is the number of inputs that earlier calls have written. Without a key, nothing is
    resumed."""

    def __init__(self, path: Path, key: Any = None) -> None:
        self.path, self.key, self.done = path, json.loads(json.dumps(key)), 0
        place = path.resolve()
        self._place = place
        self._grows = not place.exists() or place.is_file()  # special files (/dev/null, pipes) are written to directly
        self._part = part_of(place) if self._grows else place
        self._state = self._part.with_name(self._part.name + ".json")
        with explain_errors(path):
            self._size = self._resume() if self._grows else 0
            self._file = self._part.open("r+b" if self._size else "wb")
            if self._size:
                self._file.truncate(self._size)
                self._file.seek(self._size)

    def _resume(self) -> int:
        """Set `done`, and return the number of bytes to keep from an earlier call."""
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
            size, done, key = state["bytes"], state["inputs"], state["key"]
            if self.key is None or key != self.key or self._part.stat().st_size < size:
                return 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0
        self.done = done
        return size

    @property
    def empty(self) -> bool:
        """Return whether nothing is written yet."""
        return self._size == 0

    def write(self, text: str, inputs: int) -> None:
        """Append the output for the next `inputs`."""
        with explain_errors(self.path):
            self._size += self._file.write(text.encode())
            self._file.flush()
            self.done += inputs
            if self._grows and self.key is not None:
                os.fsync(self._file.fileno())
                state = {"inputs": self.done, "bytes": self._size, "key": self.key}
                write_text(self._state, json.dumps(state, ensure_ascii=False))

    def finish(self) -> None:
        """Rename the complete file to its final name."""
        with explain_errors(self.path):
            self._file.close()
            if self._grows:
                flush(self._part)
                os.replace(self._part, self._place)
                flush(self._place.parent)
                self._state.unlink(missing_ok=True)

    def leave(self) -> None:
        """Close an incomplete file; keep it if a later call can resume it."""
        self._file.close()
        if self._grows and (self.key is None or not self.done):
            self._part.unlink(missing_ok=True)
            self._state.unlink(missing_ok=True)
