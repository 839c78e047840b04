"""Bytes to lines: plain, .gz or .zst, one line in memory at a time, and nothing guessed about encodings.

Lines end with a line feed (a carriage return before it is dropped) and with nothing else: `str.splitlines` would also
split at U+2028 and pull parallel files out of step.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.errors import CallError, RegardError

LONGEST_LINE = 1 << 20  # bytes; what is longer is no sentence, and would not stream


class Line(NamedTuple):
    """A line of a text file, numbered from 1. If `problem` is not empty, `text` is only good for being shown."""

    number: int
    text: str
    problem: str = ""
    kind: Literal["encoding", "unreadable", "blank"] = "unreadable"


def open_bytes(path: Path) -> io.BufferedIOBase:
    """The bytes of a file, unpacked if its name ends in .gz or .zst."""
    try:
        if path.suffix == ".gz":
            return gzip.GzipFile(path)
        if path.suffix == ".zst":
            return io.BufferedReader(_Zstandard(path), 1 << 16)
        return path.open("rb")
    except OSError as problem:
        raise CallError(f"{path}: {problem.strerror or problem}") from None


class _Zstandard(io.RawIOBase):
    """The unpacked bytes of a .zst file, of one or many frames.

    The library's own `stream_reader` takes the end of a truncated file for the end of the data.
    """

    def __init__(self, path: Path) -> None:
        import zstandard  # in a light installation, nothing is read that was packed by it

        self._library = zstandard
        self._packed = path.open("rb")
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while not self._ready:
            packed = self._frame.unused_data or self._packed.read(1 << 16)
            if not packed:
                if not self._frame.eof:
                    raise EOFError("it ends too early")
                return 0
            if self._frame.eof:
                self._frame = self._library.ZstdDecompressor().decompressobj()
            try:
                self._ready = self._frame.decompress(packed)
            except self._library.ZstdError as problem:
                raise EOFError(str(problem)) from None
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def close(self) -> None:
        self._packed.close()
        super().close()


def read_lines(path: Path) -> Iterator[Line]:
    """Every line of a UTF-8 text file; those that are no text say why."""
    parts = raw_lines(path)
    for number, raw in enumerate(parts, start=1):
        problem = ""
        if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
            problem = f"longer than {LONGEST_LINE:,} bytes"
            next((part for part in parts if part.endswith(b"\n")), None)
        yield decoded(number, raw, problem)


def raw_lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """The bytes of every line with its end, without a mark at the very beginning; of a line of more than `longest`
    bytes, so many at a time."""
    number = 0
    with open_bytes(path) as file:
        try:
            while raw := file.readline(longest):
                yield raw if number else _without_mark(path, raw)
                number += 1
        except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
            raise RegardError(
                f"{path}: cannot be unpacked beyond line {number:,} ({problem}); copy or download it again"
            ) from None
        except OSError as problem:
            raise RegardError(f"{path}: cannot be read beyond line {number:,} ({problem})") from None


def _without_mark(path: Path, first: bytes) -> bytes:
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CallError(f"{path}: is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8 {path} > NEW")
    return first.removeprefix(b"\xef\xbb\xbf")


def decoded(number: int, raw: bytes, problem: str = "") -> Line:
    """The line in these bytes; `problem`: what is already known to be wrong with it."""
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        text = raw.decode(errors="replace")
        if not problem:
            return Line(number, text, f"byte {error.start + 1} (0x{raw[error.start]:02x}) is not UTF-8", "encoding")
    if not problem and "\0" in text:
        problem = f"byte {raw.index(0) + 1} is zero: not a text file?"
    return Line(number, text, problem)
