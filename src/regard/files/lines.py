"""Read lines of plain, .gz, .bz2, .xz or .zst files, one line in memory at a time, without guessing encodings.

Only a line feed ends a line (a carriage return before it is dropped). `str.splitlines` would also split at U+2028 and
misalign parallel files.
"""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.errors import CallError, RegardError

LONGEST_LINE = 1 << 20  # bytes; a longer line is not a sentence, and could not be streamed
#: Endings of compressed files, and the first bytes of each.
PACKED = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".xz": b"\xfd7zXZ\0", ".zst": b"\x28\xb5\x2f\xfd"}
#: What a damaged or truncated compressed file raises.
BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError)


class Line(NamedTuple):
    """A line of a text file, numbered from 1. If `problem` is not empty, `text` is only for display."""

    number: int
    text: str
    problem: str = ""
    kind: Literal["encoding", "unreadable", "blank"] = "unreadable"


def ending(path: Path | str) -> str:
    """Return the ending of a name in lower case, without that of a compressed file: .csv of a.csv.gz."""
    path = Path(path)
    return Path(path.stem if path.suffix.lower() in PACKED else path.name).suffix.lower()


def packing(path: Path) -> str:
    """Return how a file is compressed, by its first bytes or its name: .gz, .bz2, .xz, .zst, or an empty string."""
    with path.open("rb") as file:
        start = file.read(6)
    named = path.suffix.lower() if path.suffix.lower() in PACKED else ""
    return next((suffix for suffix, first in PACKED.items() if start.startswith(first)), named)


def open_bytes(path: Path) -> io.BufferedIOBase:
    """Open a file for reading bytes; a compressed one (.gz, .bz2, .xz, .zst) is unpacked on the fly."""
    try:
        match packing(path):
            case ".gz":
                return gzip.GzipFile(path)
            case ".bz2":
                return bz2.BZ2File(path)
            case ".xz":
                return lzma.LZMAFile(path)
            case ".zst":
                return io.BufferedReader(_Zstandard(path), 1 << 16)
            case _:
                return path.open("rb")
    except OSError as problem:
        raise CallError(f"{path}: {problem.strerror or problem}") from None


class _Zstandard(io.RawIOBase):
    """The unpacked bytes of a .zst file of one or more frames.

    The library's `stream_reader` does not detect a truncated file.
    """

    def __init__(self, path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise CallError(
                f"{path}: .zst files need zstandard, which is not installed: pip install zstandard"
            ) from None
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
                    raise EOFError("the file is truncated")
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
    """Yield every line of a UTF-8 text file; invalid ones have a `problem`."""
    parts = raw_lines(path)
    for number, raw in enumerate(parts, start=1):
        problem = ""
        if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
            problem = f"longer than {LONGEST_LINE:,} bytes"
            next((part for part in parts if part.endswith(b"\n")), None)
        yield decoded(number, raw, problem)


def raw_lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Yield the bytes of every line with its end, without a byte order mark. A line of more than `longest` bytes is
    split."""
    number = 0
    with open_bytes(path) as file:
        try:
            while raw := file.readline(longest):
                yield raw if number else _without_mark(path, raw)
                number += 1
        except BROKEN as problem:
            what, advice = ("unpacked", "; copy or download it again") if packing(path) else ("read", "")
            raise RegardError(f"{path}: cannot be {what} beyond line {number:,} ({problem}){advice}") from None


def _without_mark(path: Path, first: bytes) -> bytes:
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CallError(f"{path}: is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8 {path} > NEW")
    return first.removeprefix(b"\xef\xbb\xbf")


def decoded(number: int, raw: bytes, problem: str = "") -> Line:
    """Decode a line. `problem`: a problem that is already known."""
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
