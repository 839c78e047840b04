"""Plain text files as a stream of pieces: any number, any size, one piece in memory at a time.

    data.train=book.txt   data.train='books/*.txt,more.txt.gz'   data.train=folder

UTF-8, perhaps packed (.gz, .zst). A line that is no UTF-8 becomes a `Bad` with its number; what makes the whole file
unusable (it is missing, it is UTF-16, it cannot be unpacked) is raised. Line ends are line feeds, however they were
written; otherwise not a character is changed.
"""

import glob
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import zstandard

from regard.data.pairs import Bad, excerpt
from regard.data.tables import Role
from regard.errors import CallError, RegardError
from regard.files.lines import open_bytes

Documents = Literal["file", "line", "paragraph"]
BLOCK = 1 << 16  # bytes of a piece, about
TEXT_ENDINGS = {".txt", ".text", ".md", ".rst", ".tex", ".html", ".xml", ".py", ".c", ".h", ".js", ".java", ""}


class Piece(NamedTuple):
    """Some text of a document, and whether the document ends with it."""

    text: str
    ends: bool

    @property
    def key(self) -> str:
        return self.text


def text_files(where: str, role: Role = "train") -> list[Path]:
    """The files that a setting stands for, in the order it names them, those of a glob or folder by name."""
    found: list[Path] = []
    for part in [where] if Path(where).expanduser().is_file() else where.split(","):
        path = Path(part.strip()).expanduser()
        if path.is_file():
            found.append(path)
        elif path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.is_file() and _is_text(file))
            if not files:
                raise CallError(f"data.{role}={where}: there is no text file in the folder {path}")
            found += files
        else:
            matches = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
            files = [match for match in matches if match.is_file()]
            if not files:
                raise CallError(f"data.{role}={where}: there is no file {path}")
            found += files
    return list(dict.fromkeys(found))


def _is_text(file: Path) -> bool:
    ending = Path(file.stem).suffix if file.suffix in (".gz", ".zst") else file.suffix
    return ending.lower() in TEXT_ENDINGS and not file.name.startswith(".")


def read_pieces(files: list[Path], documents: Documents) -> Iterator[Piece | Bad]:
    """All files, one after the other."""
    for file in files:
        blocks = _blocks(file)
        if documents == "file":
            yield from _one_document(blocks)
        else:
            yield from _many_documents(blocks, "\n" if documents == "line" else "\n\n")


def _one_document(blocks: Iterator[str | Bad]) -> Iterator[Piece | Bad]:
    held: str | None = None  # only after the last one is it known to be the last
    for block in blocks:
        if isinstance(block, Bad):
            yield block
            continue
        if held is not None:
            yield Piece(held, ends=False)
        held = block
    if held is not None:
        yield Piece(held, ends=True)


def _many_documents(blocks: Iterator[str | Bad], end: str) -> Iterator[Piece | Bad]:
    """What `end` parts; it belongs to neither side, and nothing between two of them is no document."""
    rest = ""
    for block in blocks:
        if isinstance(block, Bad):
            yield block
            continue
        *whole, rest = (rest + block).split(end)
        yield from (Piece(text, ends=True) for text in whole if text.strip())
    if rest.strip():
        yield Piece(rest.rstrip("\n"), ends=True)


def _blocks(file: Path) -> Iterator[str | Bad]:
    """Text of about BLOCK bytes, cut after a line's end, else before a space, else anywhere between characters."""
    rest, line = b"", 1
    with open_bytes(file) as handle:
        while True:
            try:
                more = handle.read(BLOCK)
            except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError, OSError) as problem:
                raise RegardError(f"{file}: cannot be read beyond line {line:,} ({problem})") from None
            if line == 1 and not rest:
                more = _without_mark(file, more)
            rest += more
            if not rest:
                return
            cut = _cut(rest) if more else len(rest)
            block, rest = rest[:cut], rest[cut:]
            yield from _decoded(file, block, line)
            line += block.count(b"\n")


def _cut(block: bytes) -> int:
    if (end := block.rfind(b"\n") + 1) > 0:
        return end
    if (space := block.rfind(b" ")) > 0:
        return space
    end = len(block) - 1
    while end > max(0, len(block) - 4) and block[end] & 0xC0 == 0x80:  # inside a character, which may go on
        end -= 1
    return end


def _decoded(file: Path, block: bytes, line: int) -> Iterator[str | Bad]:
    block = block.replace(b"\r\n", b"\n")
    try:
        text = block.decode()
    except UnicodeDecodeError:
        text = None
    if text is not None and "\0" not in text:
        yield text
        return
    good: list[str] = []
    for number, raw in enumerate(block.splitlines(keepends=True), line):
        try:
            text = raw.decode()
            problem = f"byte {raw.index(0) + 1} is zero: not a text file?" if "\0" in text else ""
        except UnicodeDecodeError as error:
            problem = f"byte {error.start + 1} (0x{raw[error.start]:02x}) is not UTF-8"
        if problem:
            yield Bad(str(file), number, "encoding", problem, excerpt(raw.decode(errors="replace")))
        else:
            good.append(text or "")
    if good:
        yield "".join(good)


def _without_mark(file: Path, first: bytes) -> bytes:
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CallError(f"{file}: is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8 {file} > NEW")
    return first.removeprefix(b"\xef\xbb\xbf")
