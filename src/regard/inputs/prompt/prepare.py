"""From settings to token ids of plain text: measure, learn the vocabulary, tokenize; each step once.

Every step writes a folder of the cache, see `data/cache.py`. Without data.valid, the last part of the text is held out:
a place in the middle of one long text (nanoGPT's split), or the end of a document where there are many.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from regard.corpora import PREFIX
from regard.data.cache import built_once
from regard.data.pairs import Bad
from regard.data.tables import Role, corpora_version, read_corpus
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.inputs.prompt.files import BLOCK, Piece, read_pieces, text_files
from regard.inputs.prompt.settings import TextDataSettings
from regard.inputs.prompt.store import VERSION, TextCounts, TextStore, write_text

KINDS: dict[str, Any] = {"bpe": "bytes"}  # what language models call bpe works on bytes, and loses nothing


@dataclass(frozen=True)
class TextPart:
    """All of some files, or what lies before or after so many bytes of their text."""

    where: str
    role: Role
    documents: Literal["file", "line", "paragraph"]
    part: Literal["all", "before", "after"] = "all"
    at: int = 0

    def read(self) -> Iterator[Piece | Bad]:
        if self.where.startswith(PREFIX):  # each source text of a corpus of ours is a document
            items = read_corpus(self.where, self.role)
            return (item if isinstance(item, Bad) else Piece(item.source, ends=True) for item in items)
        pieces = read_pieces(text_files(self.where, self.role), self.documents)
        return pieces if self.part == "all" else self._cut(pieces)

    def _cut(self, pieces: Iterator[Piece | Bad]) -> Iterator[Piece | Bad]:
        seen, before = 0, self.part == "before"
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

    def key(self) -> list[Any]:
        """What the text depends on: the files by name, size and time of change."""
        if self.where.startswith(PREFIX):
            return [self.where, self.role, corpora_version()]
        seen = ((path.resolve(), path.stat()) for path in text_files(self.where, self.role))
        files = [[str(path), stat.st_size, stat.st_mtime_ns] for path, stat in seen]
        return [self.documents, self.part, self.at, files]

    def __str__(self) -> str:
        named = {"all": "", "before": " (first part)", "after": " (last part, held out)"}
        return self.where + named[self.part]


@dataclass(frozen=True)
class PreparedText:
    tokenizer: Tokenizer
    parts: dict[Role, TextPart]
    stores: dict[Role, TextStore]

    @property
    def train(self) -> TextStore:
        return self.stores["train"]

    @property
    def valid(self) -> TextStore:
        return self.stores["valid"]


def prepare_text(
    settings: TextDataSettings, cache: Path, *, tokenizer: Tokenizer | None = None, strict: bool = True
) -> PreparedText:
    """`tokenizer` is used as it is, instead of learning a new one: that of a run that goes on, or is the start.

    `strict` refuses data with more bad lines than `data.max_bad`; without it they are only counted, for `check`.
    """
    cache = Path(settings.cache).expanduser() if settings.cache else cache
    parts = find_parts(settings, cache)
    tokenizer = tokenizer or _vocabulary(cache, settings, parts["train"])
    stores: dict[Role, TextStore] = {}
    for role, part in parts.items():
        stores[role] = store_text(cache, part, tokenizer)
        refuse_if_useless(stores[role], part, settings.max_bad if strict else 1.0)
    return PreparedText(tokenizer, parts, stores)


def find_parts(settings: TextDataSettings, cache: Path) -> dict[Role, TextPart]:
    """Which text is for what. Test text is read when it is asked for, by `evaluate`."""
    train = TextPart(settings.train, "train", settings.documents)
    valid = settings.valid or (settings.train if settings.train.startswith(PREFIX) else None)  # a corpus has its own
    if valid is not None:
        return {"train": train, "valid": TextPart(valid, "valid", settings.documents)}
    total = _measure(cache, train).bytes
    at = total - min(settings.valid_most, total - int(total * (1 - settings.valid_share)))
    return {
        "train": TextPart(settings.train, "train", settings.documents, "before", at),
        "valid": TextPart(settings.train, "valid", settings.documents, "after", at),
    }


def store_text(cache: Path, part: TextPart, tokenizer: Tokenizer) -> TextStore:
    key = [VERSION, part.key(), tokenizer.to_json()]

    def build(folder: Path) -> None:
        write_text(folder, part.read(), tokenizer, name=str(part))

    return TextStore(built_once(cache, part.role, key, build))


def refuse_if_useless(store: TextStore, part: TextPart, max_bad: float) -> None:
    name, counts = f"data.{part.role}={part}", store.counts
    if counts.bad and counts.bad_share > max_bad:
        listing = "".join(f"\n  {bad}" for bad in counts.first_bad[:3])
        raise RegardError(
            f"{name}: {counts.bad:,} lines ({counts.bad_share:.1%}) are not UTF-8 text, more than data.max_bad="
            f"{max_bad:g} allows. The first of them:{listing}"
        )
    if counts.tokens < 2:
        raise RegardError(f"{name}: there is no text in it")


def _measure(cache: Path, part: TextPart) -> TextCounts:
    def build(folder: Path) -> None:
        counts = TextCounts()
        for _ in counts.only_text(part.read()):
            pass
        (folder / "count.json").write_text(json.dumps(counts.as_dict()), encoding="utf-8")

    folder = built_once(cache, "count", part.key(), build)
    return TextCounts.from_dict(json.loads((folder / "count.json").read_text(encoding="utf-8")))


def _vocabulary(cache: Path, settings: TextDataSettings, train: TextPart) -> Tokenizer:
    """Learned from training text only, and from an even choice of its pieces if there is very much."""
    how = settings.tokenizer

    def texts() -> Iterator[str]:
        pieces = (item.text for item in train.read() if isinstance(item, Piece))
        whole = _measure(cache, train).bytes
        return islice(pieces, 0, None, max(1, whole // how.learn_from) if whole > BLOCK else 1)

    def build(folder: Path) -> None:
        kind = KINDS.get(how.kind, how.kind)
        made = Tokenizer.train(texts(), kind, size=how.size, min_frequency=how.min_frequency)
        made.save(folder / "tokenizer.json")

    folder = built_once(cache, "vocabulary", [train.key(), how.model_dump()], build)
    return Tokenizer.load(folder / "tokenizer.json")
