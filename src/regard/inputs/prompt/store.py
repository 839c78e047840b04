"""Plain text as token ids on disk (`data/store.py`).

    tokens   begin text end begin text end …, one document after the other

Where a vocabulary has one token for begin and end (GPT-2), it stands once between documents, and at the very start.
"""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from regard.data.counts import unknown_in
from regard.data.pairs import Bad
from regard.data.store import Store, StoreWriter, ids_array
from regard.data.tokenizer import Tokenizer
from regard.inputs.prompt.files import Piece
from regard.inputs.prompt.parts import counted_text

_AT_ONCE = 16  # pieces tokenized together


class TextStore(Store):
    """The tokens of a folder that `write_text` made."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def ids(self) -> NDArray[Any]:
        return self["tokens"]

    @property
    def bytes(self) -> int:
        """Of the text in UTF-8."""
        return int(self.counts.totals["bytes"])

    @property
    def unknown(self) -> int:
        """Tokens that are not in the vocabulary."""
        return self.counts.sides[0].unknown


def write_text(folder: Path, items: Iterable[Piece | Bad], tokenizer: Tokenizer, *, name: str) -> None:
    """Tokenize all text into `folder`, which must exist. Memory does not grow with it."""
    start, end, unknown = tokenizer.specials.start, tokenizer.specials.end, tokenizer.specials.unk
    opened = False  # whether the begin token of the document at hand is written
    with StoreWriter(folder, name, tokens=ids_array(tokenizer.size)._replace(ragged=False)) as store:
        if start is not None and start == end:
            store.add("tokens", [start])
        pieces = counted_text(items, store.counts)
        while some := list(islice(pieces, _AT_ONCE)):
            found: list[int] = []
            for piece, ids in zip(some, tokenizer.encode_batch([piece.text for piece in some]), strict=True):
                if not opened and start is not None and start != end:
                    found.append(start)
                store.counts.sides[0].add(len(ids), unknown_in(ids, unknown))
                found += ids
                if piece.ends and end is not None:
                    found.append(end)
                opened = not piece.ends
            store.add("tokens", found)
