"""Which plain text is for training, for validation, for testing.

Without data.valid, the last part of the text is held out: from a place in the middle of one long text (nanoGPT's
split), or from the end of a document where there are many.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.corpora import PREFIX
from regard.data.cache import built_once
from regard.data.counts import COUNTS, Counts
from regard.data.files import Source, places
from regard.data.pairs import Bad
from regard.data.prepare import Steps
from regard.data.progress import watched
from regard.data.splits import Split
from regard.data.tables import Role, read_corpus
from regard.inputs.prompt.files import Documents, Piece, read_pieces, text_files
from regard.inputs.prompt.settings import TextDataSettings


@dataclass(frozen=True)
class TextSource(Source[Piece]):
    documents: Documents = "file"

    def read(self) -> Iterator[Piece | Bad]:
        if self.where.startswith(PREFIX):  # each source text of a corpus of ours is a document
            items = read_corpus(self.where, self.role)
            return (item if isinstance(item, Bad) else Piece(item.source, ends=True) for item in items)
        return read_pieces(self.paths(), self.documents)

    def paths(self) -> list[Path]:
        return [] if self.where.startswith(PREFIX) else text_files(self.where, self.role)


@dataclass(frozen=True)
class TextPart(Split[Piece]):
    """All of some text, or what lies before (kept) or after (held out) so many bytes of it."""

    at: int = 0

    def read(self) -> Iterator[Piece | Bad]:
        seen, before = 0, self.part != "held out"
        for item in self.source.read():
            if isinstance(item, Bad) or self.part == "all":
                if before:  # once is enough
                    yield item
                continue
            raw = item.text.encode()
            inside = max(0, min(len(raw), self.at - seen))
            if 0 < inside < len(raw) and self.source.documents != "file":  # pyright: ignore[reportAttributeAccessIssue]
                inside = len(raw)  # a document stays whole
            seen += len(raw)
            head, tail = raw[:inside].decode(errors="ignore"), raw[inside:].decode(errors="ignore")
            if before and head:
                yield Piece(head, item.ends and not tail)
            if not before and tail:
                yield Piece(tail, item.ends)

    def depends_on(self) -> list[Any]:
        return [*super().depends_on(), self.at]


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
    parts = {role: text_part(settings, where, role) for role, where in places(settings).items() if role != "test"}
    if "valid" not in parts:
        total = text_bytes(steps, parts["train"])
        at = total - min(settings.valid_most, total - int(total * (1 - settings.valid_share)))
        kept = replace(parts["train"], part="kept", at=at)
        parts["train"], parts["valid"] = kept, replace(kept, part="held out")
    return parts


def text_part(settings: TextDataSettings, where: str, role: Role) -> TextPart:
    return TextPart(TextSource(where, role, documents=settings.documents))
