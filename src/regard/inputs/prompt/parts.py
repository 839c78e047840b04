"""Which plain text is for training, for validation, for testing.

Without data.valid, the last part of the text is held out: from a place in the middle of one long text (nanoGPT's
split), or from the end of a document where there are many.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from regard.corpora import PREFIX
from regard.data.cache import built_once
from regard.data.counts import COUNTS, Counts
from regard.data.pairs import Bad
from regard.data.prepare import Steps
from regard.data.progress import watched
from regard.data.splits import places
from regard.data.tables import Role, corpora_version, read_corpus
from regard.inputs.prompt.files import Piece, read_pieces, text_files
from regard.inputs.prompt.settings import TextDataSettings


@dataclass(frozen=True)
class TextPart:
    """All of some files, or what lies before (kept) or after (held out) so many bytes of their text."""

    where: str
    role: Role
    documents: Literal["file", "line", "paragraph"]
    part: Literal["all", "kept", "held out"] = "all"
    at: int = 0
    sample: float = 1.0  # all of it is read

    def read(self) -> Iterator[Piece | Bad]:
        if self.where.startswith(PREFIX):  # each source text of a corpus of ours is a document
            items = read_corpus(self.where, self.role)
            return (item if isinstance(item, Bad) else Piece(item.source, ends=True) for item in items)
        pieces = read_pieces(text_files(self.where, self.role), self.documents)
        return pieces if self.part == "all" else self._cut(pieces)

    def _cut(self, pieces: Iterator[Piece | Bad]) -> Iterator[Piece | Bad]:
        seen, before = 0, self.part == "kept"
        for item in pieces:
            if isinstance(item, Bad):
                if before:  # once is enough
                    yield item
                continue
            raw = item.text.encode()
            inside = max(0, min(len(raw), self.at - seen))
            if 0 < inside < len(raw) and self.documents != "file":
                inside = len(raw)  # a document stays whole
            seen += len(raw)
            head, tail = raw[:inside].decode(errors="ignore"), raw[inside:].decode(errors="ignore")
            if before and head:
                yield Piece(head, item.ends and not tail)
            if not before and tail:
                yield Piece(tail, item.ends)

    def depends_on(self) -> list[Any]:
        if self.where.startswith(PREFIX):
            return [self.where, self.role, corpora_version()]
        seen = ((path.resolve(), path.stat()) for path in text_files(self.where, self.role))
        files = [[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in seen]
        return [self.documents, self.part, self.at, files]

    def __str__(self) -> str:
        return self.where if self.part == "all" else f"{self.where} ({self.part})"


def counted_text(items: Iterable[Piece | Bad], counts: Counts) -> Iterator[Piece]:
    """The text; lines, bytes, characters and documents are counted as they pass."""
    for piece in counts.read.only_pairs(items):
        counts.read.pairs += max(1, piece.text.count("\n")) - 1  # it counts lines, and has counted one
        counts.add("bytes", len(piece.text.encode()))
        counts.add("characters", len(piece.text))
        counts.add("documents", piece.ends)
        yield piece


def text_bytes(steps: Steps, part: TextPart) -> int:
    """How much text there is."""

    def build(folder: Path) -> None:
        counts = Counts()
        for _ in counted_text(watched(part.read(), f"measuring {part}"), counts):
            pass
        (folder / "count.json").write_bytes(COUNTS.dump_json(counts))

    folder = built_once(steps.cache, "count", part.depends_on(), build)
    return int(COUNTS.validate_json((folder / "count.json").read_bytes()).totals.get("bytes", 0))


def text_parts(settings: TextDataSettings, steps: Steps) -> dict[Role, TextPart]:
    """Which text is for what. Test text is read when it is asked for, by `evaluate`."""
    parts = {role: TextPart(where, role, settings.documents) for role, where in places(settings).items()}
    if "valid" not in parts:
        total = text_bytes(steps, parts["train"])
        at = total - min(settings.valid_most, total - int(total * (1 - settings.valid_share)))
        whole = parts["train"]
        parts["train"] = replace(whole, part="kept", at=at)
        parts["valid"] = replace(whole, role="valid", part="held out", at=at)
    return {"train": parts["train"], "valid": parts["valid"]}
