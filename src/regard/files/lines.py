"""Read lines of plain, .gz, .bz2, .xz or .zst files, one line in memory at a time, without guessing encodings.

Only a line feed ends a line (a carriage return before it is dropped). `str.splitlines` would also split at U+2028 and
misalign parallel files.
"""

import bz2
import glob
import gzip
import io
import json
import lzma
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.errors import CallError, RegardError

LONGEST_LINE = 1 << 20  # bytes; a longer line is not a sentence, and could not be streamed
#: Endings of compressed files, and the first bytes of each.
PACKED = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".xz": b"\xfd7zXZ\0", ".zst": b"\x28\xb5\x2f\xfd"}
_LINES_OF_TEXT = {".tsv", ".tab", ".csv", ".txt", ".jsonl", ".ndjson", ".dat", ".data", ""}
_START = 1 << 18  # bytes of a file that estimate the length of its lines
#: What a damaged or truncated compressed file raises.
BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError)


class TextLine(NamedTuple):
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


def read_lines(path: Path) -> Iterator[TextLine]:
    """Yield every line of a UTF-8 text file; invalid ones have a `problem`."""
    parts = raw_lines(path)
    for number, raw in enumerate(parts, start=1):
        problem = ""
        if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
            problem = f"longer than {LONGEST_LINE:,} bytes"
            next((part for part in parts if part.endswith(b"\n")), None)
        yield decode_line(number, raw, problem)


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


def estimate_lines(paths: Iterable[Path]) -> int:
    """Return the approximate number of lines of text files, from their sizes and first lines; 0 if unknown."""
    count = 0.0
    for path in paths:
        try:
            if ending(path) not in _LINES_OF_TEXT:
                return 0
            with open_bytes(path) as file:
                start = file.read(_START)
            lines = start.count(b"\n")
            if not lines or (packing(path) and len(start) == _START):  # the unpacked size is unknown
                return 0
            count += lines if len(start) < _START else lines * path.stat().st_size / len(start)
        except (OSError, EOFError, RegardError):
            return 0
    return round(count)


def _without_mark(path: Path, first: bytes) -> bytes:
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CallError(f"{path}: is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8 {path} > NEW")
    return first.removeprefix(b"\xef\xbb\xbf")


def decode_line(number: int, raw: bytes, problem: str = "") -> TextLine:
    """Decode a line. `problem`: a problem that is already known."""
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        text = raw.decode(errors="replace")
        if not problem:
            return TextLine(number, text, f"byte {error.start + 1} (0x{raw[error.start]:02x}) is not UTF-8", "encoding")
    if not problem and "\0" in text:
        problem = f"byte {raw.index(0) + 1} is zero: not a text file?"
    return TextLine(number, text, problem)


# JSON Lines: one JSON object a line (jsonlines.org), plain or compressed, with errors reported by line.


def read_jsonl(path: Path) -> Iterator[tuple[TextLine, dict[str, Any] | None]]:
    """Yield each line with its object; None for an invalid one, such as the last line of a truncated file.

    `problem` of the line then gives the reason.
    """
    for line in read_lines(path):
        if line.problem:
            yield line, None
        elif not line.text.strip():
            yield line._replace(problem="blank line", kind="blank"), None
        else:
            yield _parse_line(line)


def _parse_line(line: TextLine) -> tuple[TextLine, dict[str, Any] | None]:
    try:
        found = json.loads(line.text)
    except (ValueError, RecursionError) as problem:
        return line._replace(problem=f"not JSON ({problem})"), None
    if not isinstance(found, dict):
        return line._replace(problem='not a JSON object; each line must be one, like {"name": ...}'), None
    return line, found


# Read a text that fits in memory.


def read_text(file: str) -> str:
    """Return the text of a file, or of standard input for `-`."""
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CallError(f"{file} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise CallError(f"{file}: {error.strerror}") from None


# JSON documents, one per object, as text for a language model; a chat is written as a dialogue.
#
# {"text": "..."}                                                               a document, as it is
# {"messages": [{"role": "user", "content": "Good morrow."}, ...]}              as services take a chat
# {"conversations": [{"from": "human", "value": "Good morrow."}, ...]}          as ShareGPT writes it
# {"instruction": "Greet them.", "input": "Romeo", "output": "Good morrow."}    as Alpaca writes it
#
# User: Good morrow. Assistant: Good morrow, cousin.

REPLY = "Assistant:"  # the prompt that a model continues
ENDS = ["\nUser:"]  # ends the model's turn
_NAMES = {"human": "user", "prompter": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant"}
_TURNS = (("messages", "role", "content"), ("conversations", "from", "value"), ("conversation", "from", "value"))


def as_play(turns: Iterable[tuple[str, str]]) -> str:
    """Return the turns (speaker, text) as a dialogue."""
    return "".join(f"{_NAMES.get(role.lower(), role).capitalize()}: {text}\n" for role, text in turns)


def is_chat(record: Mapping[str, Any]) -> bool:
    return any(isinstance(record.get(name), list) for name, *_ in _TURNS) or {"instruction", "output"} <= record.keys()


def document(record: Mapping[str, Any]) -> str:
    """Return the text of a document or a chat; empty if it has none."""
    for name, who, what in _TURNS:
        if isinstance(turns := record.get(name), list):
            spoken = [
                (str(turn.get(who, "")), _message_text(turn.get(what))) for turn in turns if isinstance(turn, Mapping)
            ]
            return as_play((role, text) for role, text in spoken if role and text)
    if {"instruction", "output"} <= record.keys():
        asked = "\n".join(filter(None, (_message_text(record["instruction"]), _message_text(record.get("input")))))
        return as_play([("user", asked), ("assistant", _message_text(record["output"]))])
    return _message_text(record.get("text"))


def _message_text(content: Any) -> str:
    """Return a text, or the texts among the parts of a message."""
    if isinstance(content, list):
        return "".join(_message_text(part.get("text")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


# One part of the data in several files: train-00000-of-00003.jsonl, train_1.csv, part-0001.parquet.
#
# A pattern names all of them (data.train='data/train-?????-of-00003.jsonl'). They are read in the order of their
# numbers.

_NUMBER = re.compile(r"(\d+)")
_OF = re.compile(r"-of-(\d+)")


def is_pattern(where: Path | str) -> bool:
    """Return whether a path is a pattern, not an existing file or folder, or two parallel files."""
    if not any(mark in str(where) for mark in "*?["):
        return False
    return not any(Path(one).expanduser().exists() for one in (str(where), *str(where).split(",")))


def files_of(where: Path | str) -> list[Path]:
    """Return the files of a pattern in the order of their numbers; a path without a pattern is one file."""
    path = Path(where).expanduser()
    if not is_pattern(path):
        return [path]
    return sorted(
        (found for name in glob.glob(str(path), recursive=True) if (found := Path(name)).is_file()), key=_order
    )


def pattern_of(files: Sequence[Path]) -> Path:
    """Return a pattern that matches exactly these shards; for a single file, the file."""
    names = [_NUMBER.split(file.name) for file in files]
    for digit, digits in (("?", "*"), ("[0-9]", "[0-9]*")):
        parts = [
            glob.escape(parts[0]) if len({*parts}) == 1 else digit * len(parts[0]) if _equally_long(parts) else digits
            for parts in zip(*names, strict=True)
        ]
        pattern = Path(glob.escape(str(files[0].parent))) / "".join(parts)
        if len(files) == 1 or files_of(pattern) == sorted(files, key=_order):
            return files[0] if len(files) == 1 else pattern
    raise CallError(f"{files[0].parent}: no pattern matches only {files[0].name} to {files[-1].name}; rename them")


def group_shards(files: Iterable[Path]) -> list[list[Path]]:
    """Group shards, whose names differ in a number that counts from 0 or 1."""
    alike: dict[tuple[str, ...], list[Path]] = {}
    for file in sorted(files, key=_order):
        alike.setdefault((str(file.parent), *_OF.findall(file.name), *_NUMBER.split(file.name)[::2]), []).append(file)
    return [group for same in alike.values() for group in ([same] if _are_shards(same) else [[one] for one in same])]


def _are_shards(files: Sequence[Path]) -> bool:
    if said := _OF.search(files[0].name):
        if len(files) != int(said[1]):
            have = ", ".join(file.name for file in files[:5])
            raise CallError(
                f"{files[0].parent}: {len(files)} of {int(said[1])} shards are present ({have}): add the others"
            )
        return True
    numbers = [tuple(map(int, _NUMBER.findall(file.name))) for file in files]
    varying = [column for column in zip(*numbers, strict=True) if len({*column}) > 1]
    return (
        len(varying) == 1
        and varying[0][0] <= 1
        and [*varying[0]] == [*range(varying[0][0], varying[0][0] + len(files))]
    )


def _equally_long(texts: Sequence[str]) -> bool:
    return len({*map(len, texts)}) == 1


def _order(file: Path) -> list[tuple[int, str]]:
    """Sort by name, with numbers by value: train_2 before train_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBER.split(str(file))]
