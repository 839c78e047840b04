"""Plain text as token ids on disk, mapped into memory when they are read: data may be larger than memory.

    tokens.ids   begin text end begin text end …, one document after the other; uint16 if the ids fit
    store.json   what was counted on the way; written last

Where a vocabulary has one token for begin and end (GPT-2), it stands once between documents, and at the very start.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.pairs import Bad
from regard.data.read_report import FIRST
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.inputs.prompt.files import Piece

VERSION = 1
_AT_ONCE = 16  # pieces tokenized together


@dataclass
class TextCounts:
    """What was read: characters and bytes of the text, documents, tokens of text and how many of them are unknown."""

    bytes: int = 0
    characters: int = 0
    lines: int = 0
    documents: int = 0
    tokens: int = 0
    unknown: int = 0
    bad: int = 0
    first_bad: list[Bad] = field(default_factory=list)

    def only_text(self, items: Iterable[Piece | Bad]) -> Iterator[Piece]:
        """Count everything that passes; let through what is text."""
        for item in items:
            if isinstance(item, Bad):
                self.bad += item.lines
                if len(self.first_bad) < FIRST:
                    self.first_bad.append(item)
                continue
            self.bytes += len(item.text.encode())
            self.characters += len(item.text)
            self.lines += item.text.count("\n")
            self.documents += item.ends
            yield item

    @property
    def bad_share(self) -> float:
        return self.bad / max(1, self.bad + self.lines)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "first_bad": [bad._asdict() for bad in self.first_bad]}

    @classmethod
    def from_dict(cls, tree: dict[str, Any]) -> "TextCounts":
        return cls(**{**tree, "first_bad": [Bad(**bad) for bad in tree["first_bad"]]})


class TextStore:
    """The tokens of a folder that `write_text` made. Nothing is read before it is asked for."""

    def __init__(self, folder: Path) -> None:
        try:
            about = json.loads((folder / "store.json").read_text(encoding="utf-8"))
            if about["version"] != VERSION or (folder / "tokens.ids").stat().st_size != about["size"]:
                raise ValueError("not of this version, or not complete")
        except (OSError, ValueError, KeyError) as problem:
            raise RegardError(f"{folder}: is no usable store of token ids ({problem})") from None
        self.name: str = about["name"]
        self.counts = TextCounts.from_dict(about["counts"])
        self.ids: NDArray[Any] = np.empty(0, about["kind"])
        if about["size"]:
            self.ids = np.asarray(np.memmap(folder / "tokens.ids", about["kind"], mode="r"))
        self._digest: str = about["digest"]

    def __len__(self) -> int:
        return len(self.ids)

    def digest(self) -> str:
        """Tells whether two stores hold the same tokens, whatever their files are called."""
        return self._digest


def write_text(folder: Path, items: Iterable[Piece | Bad], tokenizer: Tokenizer, *, name: str) -> None:
    """Tokenize all text into `folder`, which must exist. Memory does not grow with it."""
    counts, kinds = TextCounts(), "uint16" if tokenizer.size <= 1 << 16 else "uint32"
    start, end, unknown = tokenizer.specials.start, tokenizer.specials.end, tokenizer.specials.unk
    digest = blake2b(digest_size=10)
    pieces = counts.only_text(items)
    opened = False  # whether the begin token of the document at hand is written
    with (folder / "tokens.ids").open("wb") as file:
        if start is not None and start == end:
            file.write(np.array([start], kinds).tobytes())
        while some := list(islice(pieces, _AT_ONCE)):
            found: list[int] = []
            for piece, ids in zip(some, tokenizer.encode_batch([piece.text for piece in some]), strict=True):
                if not opened and start is not None and start != end:
                    found.append(start)
                counts.tokens += len(ids)
                counts.unknown += Counter(ids)[unknown] if unknown is not None else 0
                found += ids
                if piece.ends and end is not None:
                    found.append(end)
                opened = not piece.ends
            raw = np.array(found, kinds).tobytes()
            digest.update(raw)
            file.write(raw)
        size = file.tell()
    about = {"version": VERSION, "name": name, "kind": kinds, "size": size, "digest": digest.hexdigest()}
    (folder / "store.json").write_text(json.dumps(about | {"counts": counts.as_dict()}), encoding="utf-8")
