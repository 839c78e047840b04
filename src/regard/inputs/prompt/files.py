"""Plain text files as a stream of pieces: any number, any size, one piece in memory at a time.

    data.train=book.txt   data.train='books/*.txt,more.txt.gz'   data.train=folder   data.train=chats.jsonl

UTF-8, perhaps compressed (.gz, .bz2, .xz, .zst). A line that is not UTF-8 becomes a `SkippedLine` with its number. An
unusable
file (missing, UTF-16, or damaged compression) raises an error. Line ends become line feeds; no other character is
changed. In JSON, each object is a document (`files/lines.py`).

Without data.valid, the last part of the text is held out: from the middle of one long text (nanoGPT's split), or from
the end of a document if there are many. With data.test_share, the last part is the test text, and the validation text
precedes it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from regard.corpora import PREFIX
from regard.data.files import FileSource, places
from regard.data.formats import json_rows, unreadable
from regard.data.pairs import COUNTS, ReadCounts, SkippedLine, excerpt
from regard.data.prepare import PrepareCache, Split, built_once, with_progress
from regard.data.settings import Testing
from regard.data.tables import Role, read_corpus
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.files.lines import decode_line, document, ending, files_of, is_pattern, raw_lines
from regard.settings.base import Settings

# Settings of plain text: source and tokenizer.


class TextTokenizerSettings(Settings):
    """Tokenizer settings. All kinds restore every character, including line ends and spaces."""

    kind: Literal["character", "byte", "bpe"] = Field(
        "bpe", description="character, byte, or bpe: pairs of bytes merged as in GPT-2, which can encode every text"
    )
    size: int = Field(8000, ge=8, description="maximum entries of the vocabulary, including the four special tokens")
    min_frequency: int = Field(1, ge=1, description="how often a character or merged pair must occur to be kept")
    learn_from: int = Field(50_000_000, ge=1, description="about how many bytes to learn it from, sampled evenly")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.kind == "bpe" and self.size < 260:
            yield "size", "is too small for bpe: the 256 bytes and four special tokens are always there"


class TextDataSettings(Settings):
    """Plain text. Each of train, valid and test is FILE, a glob such as 'a/*.txt', a folder, or several with commas.
    corpus:NAME means the sentences of a corpus that comes with regard.

    UTF-8; also .gz, .bz2, .xz and .zst. Tokens are kept in memory-mapped files that are made once, so data may be of
    any size.
    """

    testing: ClassVar[Testing] = Testing(2000, 10_000, 500_000)  # bytes

    train: str = Field(
        description="training text: FILE, 'GLOB', a folder, several with commas, or corpus:NAME; in .json and .jsonl, "
        "each object is a document or a chat"
    )
    valid: str | None = Field(None, description="validation text; by default the last part of the training text")
    test: str | None = Field(None, description="test text, for `regard evaluate`; by default the validation text")
    documents: Literal["file", "line", "paragraph"] = Field(
        "file", description="text between begin and end tokens: a file, a line, or a paragraph (between blank lines)"
    )
    tokenizer: TextTokenizerSettings = Field(
        TextTokenizerSettings.model_validate({}), description="how text is cut into tokens"
    )
    max_bad: float = Field(0.01, ge=0, le=1, description="the share of lines that are not UTF-8 that is tolerated")
    valid_share: float = Field(0.1, gt=0, lt=1, description="the last part of the text, if valid is not given")
    valid_most: int = Field(4_000_000, ge=1, description="maximum bytes to hold out for validation")
    test_share: float = Field(
        0.0, ge=0, lt=0.5, description="the very last part of the text, held out for testing if test is not given"
    )
    cache: str | None = Field(None, description="folder for prepared data; by default inside the run's folder")


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


class TextPiece(NamedTuple):
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


def read_pieces(files: list[Path], documents: Documents) -> Iterator[TextPiece | SkippedLine]:
    """Yield the pieces of all files in order. Separators belong to no document, and empty documents are skipped."""
    end = {"file": None, "line": "\n", "paragraph": "\n\n"}[documents]
    for file in files:
        if ending(file) in JSON_ENDINGS:
            yield from _objects(file)
            continue
        held = ""  # hold one piece back to mark the last one
        for block in _blocks(file):
            if isinstance(block, SkippedLine):
                yield block
            elif end is None:
                if held:
                    yield TextPiece(held, ends=False)
                held = block
            else:
                *whole, held = (held + block).split(end)
                yield from (TextPiece(text, ends=True) for text in whole if text.strip())
        if held if end is None else held.strip():
            yield TextPiece(held if end is None else held.rstrip("\n"), ends=True)


def _objects(file: Path) -> Iterator[TextPiece | SkippedLine]:
    for line, record in json_rows(file):
        if record is None:
            yield unreadable(file, line)
        elif text := document(record):
            yield TextPiece(text, ends=True)
        else:
            has = ", ".join(map(str, record))
            reason = f"has no text, messages, conversations, or instruction and output (it has {has[:80]})"
            yield SkippedLine(str(file), line.number, "columns", reason, excerpt(line.text))


def _blocks(file: Path) -> Iterator[str | SkippedLine]:
    """Yield text of about BLOCK bytes, cut after a line end, else before a space, else anywhere
    between characters.
    """
    number, size, good, rest = 1, 0, list[str](), b""
    for more in chain(raw_lines(file, BLOCK), [b""]):
        raw, ends = rest + more, more.endswith(b"\n")
        cut = len(raw) if ends or not more else _cut(raw)
        line, rest, size = decode_line(number, raw[:cut]), raw[cut:], size + cut
        if line.problem:
            yield SkippedLine(str(file), number, "encoding", line.problem, excerpt(line.text))
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
class TextSource(FileSource[TextPiece]):
    documents: Documents = "file"

    def read(self) -> Iterator[TextPiece | SkippedLine]:
        if self.where.startswith(PREFIX):  # each source text of a packaged corpus is a document
            items = read_corpus(self.where, self.role)
            return (item if isinstance(item, SkippedLine) else TextPiece(item.source, ends=True) for item in items)
        return read_pieces(self.paths(), self.documents)

    def paths(self) -> list[Path]:
        return [] if self.where.startswith(PREFIX) else text_files(self.where, self.role)


@dataclass(frozen=True)
class TextPart(Split[TextPiece]):
    """Yield all of a text, or its bytes before `at` (training), or those from `at` to `end` (validation, test)."""

    at: int = 0
    end: int | None = None

    def read(self) -> Iterator[TextPiece | SkippedLine]:
        seen, before = 0, self.part in ("all", "kept")
        for item in self.source.read():
            if isinstance(item, SkippedLine) or self.part == "all":
                if before:  # only once
                    yield item
                continue
            raw = item.text.encode()
            first = 0 if before else self._inside(self.at - seen, len(raw))
            cut = self.at if before else self.end
            last = len(raw) if cut is None else self._inside(cut - seen, len(raw))
            seen += len(raw)
            if text := raw[first:last].decode(errors="ignore"):
                yield TextPiece(text, item.ends and last == len(raw))

    def _inside(self, place: int, size: int) -> int:
        """Return where to cut a piece of text; after it, if the piece is a document that stays whole."""
        inside = max(0, min(size, place))
        whole = self.source.documents != "file"  # pyright: ignore[reportAttributeAccessIssue]
        return size if whole and 0 < inside < size else inside

    def depends_on(self) -> list[Any]:
        return [*super().depends_on(), self.at, self.end]


def counted_text(items: Iterable[TextPiece | SkippedLine], counts: ReadCounts) -> Iterator[TextPiece]:
    """Yield the text, and count its lines, bytes, characters and documents."""
    for piece in counts.read.only_pairs(items):
        counts.read.pairs += max(1, piece.text.count("\n")) - 1  # the reader has already counted one line
        counts.add("bytes", len(piece.text.encode()))
        counts.add("characters", len(piece.text))
        counts.add("documents", piece.ends)
        yield piece


def text_bytes(steps: PrepareCache, part: TextPart) -> int:
    """Measure the size of the text."""

    def build(folder: Path) -> None:
        counts = ReadCounts()
        for _ in counted_text(with_progress(part.read(), f"measuring {part}"), counts):
            pass
        (folder / "count.json").write_bytes(COUNTS.dump_json(counts))

    folder = built_once(steps.cache, "count", part.depends_on(), build)
    return int(COUNTS.validate_json((folder / "count.json").read_bytes()).totals.get("bytes", 0))


def text_parts(settings: TextDataSettings, steps: PrepareCache) -> dict[Role, TextPart]:
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


def text_for_test(settings: TextDataSettings, steps: PrepareCache) -> TextPart | None:
    """Return the test text: a separate file, or the last part of the training text; None if there is none."""
    if settings.test is not None:
        return text_part(settings, settings.test, "test")
    if not settings.test_share or "test" in places(settings):
        return None
    whole = text_part(settings, settings.train, "train")
    return replace(whole, part="test", at=int(text_bytes(steps, whole) * (1 - settings.test_share)))


def text_part(settings: TextDataSettings, where: str, role: Role) -> TextPart:
    return TextPart(TextSource(where, role, documents=settings.documents))


# Tokens of a prompt, as a language model reads them.


def prompt_ids(tokenizer: Tokenizer, text: str, begin: bool | None, documents: str) -> list[int]:
    """Return the ids. A begin token comes first if texts start with one (`begin`; None: if `documents` are not whole
    files) or if the prompt is empty.
    """
    ids, special = tokenizer.encode(text), tokenizer.specials
    first = special.start if special.start is not None else special.end
    wanted = documents != "file" if begin is None else begin
    if ids and not (wanted and first is not None):
        return ids
    if first is None:
        raise CallError("an empty prompt needs a begin token, which this vocabulary does not have: give a prompt")
    return [first, *ids]
