"""Plain text files as a stream of pieces: any number, any size, one piece in memory at a time.

    data.train=book.txt   data.train='books/*.txt,more.txt.gz'   data.train=folder   data.train=chats.jsonl

UTF-8, perhaps compressed (.gz, .bz2, .xz, .zst). A line that is not UTF-8 becomes a `Bad` with its number. An unusable
file (missing, UTF-16, or damaged compression) raises an error. Line ends become line feeds; no other character is
changed. In JSON, each object is a document (`files/chats.py`).

Without data.valid, the last part of the text is held out: from the middle of one long text (nanoGPT's split), or from
the end of a document if there are many. With data.test_share, the last part is the test text, and the validation text
precedes it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.corpora import PREFIX
from regard.data.cache import built_once
from regard.data.counts import COUNTS, Counts
from regard.data.files import Source, places
from regard.data.formats import unreadable
from regard.data.json_rows import json_rows
from regard.data.pairs import Bad, excerpt
from regard.data.prepare import Steps, watched
from regard.data.splits import Split
from regard.data.tables import Role, read_corpus
from regard.errors import CallError
from regard.files.chats import document
from regard.files.lines import decoded, ending, raw_lines
from regard.files.shards import files_of, is_pattern
from regard.inputs.prompt.settings import TextDataSettings

Documents = Literal["file", "line", "paragraph"]
BLOCK = 1 << 16  # approximate bytes of a piece
JSON_ENDINGS = {".json", ".jsonl", ".ndjson"}
TEXT_ENDINGS = {
    ".txt",
    ".text",
    ".md",
    ".rst",
    ".tex",
    ".html",
    ".xml",
    ".py",
    ".c",
    ".h",
    ".js",
    ".java",
    ".tokens",
    "",
}


class Piece(NamedTuple):
    """Piece of a document, and whether the document ends with it."""

    text: str
    ends: bool

    @property
    def key(self) -> str:
        return self.text


def text_files(where: str, role: Role = "train") -> list[Path]:
    """Return the files of a setting in its order; files of a glob or folder are sorted by name."""
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
            files = files_of(path) if is_pattern(path) else []
            if not files:
                raise CallError(f"data.{role}={where}: there is no file {path}")
            found += files
    return list(dict.fromkeys(found))


def _is_text(file: Path) -> bool:
    return ending(file) in TEXT_ENDINGS and not file.name.startswith(".")


def read_pieces(files: list[Path], documents: Documents) -> Iterator[Piece | Bad]:
    """Yield the pieces of all files in order. Separators belong to no document, and empty documents are skipped."""
    end = {"file": None, "line": "\n", "paragraph": "\n\n"}[documents]
    for file in files:
        if ending(file) in JSON_ENDINGS:
            yield from _objects(file)
            continue
        held = ""  # hold one piece back to mark the last one
        for block in _blocks(file):
            if isinstance(block, Bad):
                yield block
            elif end is None:
                if held:
                    yield Piece(held, ends=False)
                held = block
            else:
                *whole, held = (held + block).split(end)
                yield from (Piece(text, ends=True) for text in whole if text.strip())
        if held if end is None else held.strip():
            yield Piece(held if end is None else held.rstrip("\n"), ends=True)


def _objects(file: Path) -> Iterator[Piece | Bad]:
    for line, record in json_rows(file):
        if record is None:
            yield unreadable(file, line)
        elif text := document(record):
            yield Piece(text, ends=True)
        else:
            has = ", ".join(map(str, record))
            reason = f"has no text, messages, conversations, or instruction and output (it has {has[:80]})"
            yield Bad(str(file), line.number, "columns", reason, excerpt(line.text))


def _blocks(file: Path) -> Iterator[str | Bad]:
    """Yield text of about BLOCK bytes, cut after a line end, else before a space, else anywhere
    between characters.
    """
    number, size, good, rest = 1, 0, list[str](), b""
    for more in chain(raw_lines(file, BLOCK), [b""]):
        raw, ends = rest + more, more.endswith(b"\n")
        cut = len(raw) if ends or not more else _cut(raw)
        line, rest, size = decoded(number, raw[:cut]), raw[cut:], size + cut
        if line.problem:
            yield Bad(str(file), number, "encoding", line.problem, excerpt(line.text))
        elif raw[:cut]:
            good.append(line.text + "\n" * ends)
        if good and (size >= BLOCK or not more):
            yield "".join(good)
            size, good = 0, []
        number += ends


def _cut(line: bytes) -> int:
    if (space := line.rfind(b" ")) > 0:
        return space
    end = len(line) - 1
    while end > max(0, len(line) - 4) and line[end] & 0xC0 == 0x80:  # inside a character, which may continue
        end -= 1
    return end


@dataclass(frozen=True)
class TextSource(Source[Piece]):
    documents: Documents = "file"

    def read(self) -> Iterator[Piece | Bad]:
        if self.where.startswith(PREFIX):  # each source text of a packaged corpus is a document
            items = read_corpus(self.where, self.role)
            return (item if isinstance(item, Bad) else Piece(item.source, ends=True) for item in items)
        return read_pieces(self.paths(), self.documents)

    def paths(self) -> list[Path]:
        return [] if self.where.startswith(PREFIX) else text_files(self.where, self.role)


@dataclass(frozen=True)
class TextPart(Split[Piece]):
    """Yield all of a text, or its bytes before `at` (training), or those from `at` to `end` (validation, test)."""

    at: int = 0
    end: int | None = None

    def read(self) -> Iterator[Piece | Bad]:
        seen, before = 0, self.part in ("all", "kept")
        for item in self.source.read():
            if isinstance(item, Bad) or self.part == "all":
                if before:  # only once
                    yield item
                continue
            raw = item.text.encode()
            first = 0 if before else self._inside(self.at - seen, len(raw))
            cut = self.at if before else self.end
            last = len(raw) if cut is None else self._inside(cut - seen, len(raw))
            seen += len(raw)
            if text := raw[first:last].decode(errors="ignore"):
                yield Piece(text, item.ends and last == len(raw))

    def _inside(self, place: int, size: int) -> int:
        """Return where to cut a piece of text; after it, if the piece is a document that stays whole."""
        inside = max(0, min(size, place))
        whole = self.source.documents != "file"  # pyright: ignore[reportAttributeAccessIssue]
        return size if whole and 0 < inside < size else inside

    def depends_on(self) -> list[Any]:
        return [*super().depends_on(), self.at, self.end]


def counted_text(items: Iterable[Piece | Bad], counts: Counts) -> Iterator[Piece]:
    """Yield the text, and count its lines, bytes, characters and documents."""
    for piece in counts.read.only_pairs(items):
        counts.read.pairs += max(1, piece.text.count("\n")) - 1  # the reader has already counted one line
        counts.add("bytes", len(piece.text.encode()))
        counts.add("characters", len(piece.text))
        counts.add("documents", piece.ends)
        yield piece


def text_bytes(steps: Steps, part: TextPart) -> int:
    """Measure the size of the text."""

    def build(folder: Path) -> None:
        counts = Counts()
        for _ in counted_text(watched(part.read(), f"measuring {part}"), counts):
            pass
        (folder / "count.json").write_bytes(COUNTS.dump_json(counts))

    folder = built_once(steps.cache, "count", part.depends_on(), build)
    return int(COUNTS.validate_json((folder / "count.json").read_bytes()).totals.get("bytes", 0))


def text_parts(settings: TextDataSettings, steps: Steps) -> dict[Role, TextPart]:
    """Return training and validation text. Test text is read on request (`text_for_test`)."""
    parts: dict[Role, TextPart] = {
        role: text_part(settings, where, role) for role, where in places(settings).items() if role != "test"
    }
    test_share = 0.0 if "test" in places(settings) else settings.test_share
    if "valid" in parts and not test_share:
        return parts
    total = text_bytes(steps, parts["train"])
    at = end = int(total * (1 - test_share)) if test_share else total
    if "valid" not in parts:
        at -= min(settings.valid_most, total - int(total * (1 - settings.valid_share)))
        parts["valid"] = replace(parts["train"], part="held out", at=at, end=end if test_share else None)
    parts["train"] = replace(parts["train"], part="kept", at=at)
    return parts


def text_for_test(settings: TextDataSettings, steps: Steps) -> TextPart | None:
    """Return the test text: a separate file, or the last part of the training text; None if there is none."""
    if settings.test is not None:
        return text_part(settings, settings.test, "test")
    if not settings.test_share or "test" in places(settings):
        return None
    whole = text_part(settings, settings.train, "train")
    return replace(whole, part="test", at=int(text_bytes(steps, whole) * (1 - settings.test_share)))


def text_part(settings: TextDataSettings, where: str, role: Role) -> TextPart:
    return TextPart(TextSource(where, role, documents=settings.documents))
