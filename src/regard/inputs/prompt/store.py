"""Plain text as token ids on disk (`data/store.py`).

    tokens   begin text end begin text end …, one document after the other

If a vocabulary has one token for begin and end (GPT-2), it occurs once between documents, and at
the very start.

Each epoch cuts the text into windows of `context` tokens, from a random offset, and shuffles them. Every token is
predicted once an epoch, each time at a different place of its window. A window has one token more than it predicts
from; it is the first of the next window.

Random numbers depend on (seed, epoch) alone, and batches do not depend on the number of processes.
"""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batches import Batches, seeded
from regard.data.counts import unknown_in
from regard.data.pairs import Bad
from regard.data.store import Store, StoreWriter, ids_array
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.inputs.prompt.files import Piece, counted_text
from regard.models.language_model import TextBatch

_AT_ONCE = 16  # pieces tokenized together


class TextStore(Store):
    """Tokens of a folder that `write_text` made."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def ids(self) -> NDArray[Any]:
        return self["tokens"]

    @property
    def bytes(self) -> int:
        """Number of bytes of the text in UTF-8."""
        return int(self.counts.totals["bytes"])

    @property
    def unknown(self) -> int:
        """Number of tokens that are not in the vocabulary."""
        return self.counts.sides[0].unknown


def write_text(folder: Path, items: Iterable[Piece | Bad], tokenizer: Tokenizer, *, name: str) -> None:
    """Tokenize all text into `folder`, which must exist. Memory does not grow with it."""
    start, end, unknown = tokenizer.specials.start, tokenizer.specials.end, tokenizer.specials.unk
    opened = False  # whether the begin token of the current document is written
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


class TextWindows(Batches[TextBatch | None]):
    """Batches of a store for each epoch: `rows` windows each; the last one may have fewer."""

    def __init__(self, store: TextStore, context: int, rows: int, *, seed: int = 0) -> None:
        if len(store) < 2:
            raise CallError(f"{store.name}: has {len(store)} tokens, too few to train on")
        super().__init__(seed=seed)
        self._store, self._context, self._rows = store, min(context, len(store) - 1), rows

    def _plan(self, epoch: int) -> list[np.ndarray]:
        """Return the starts of the windows."""
        chance, predicted = seeded(self._seed, epoch), len(self._store) - 1
        first = int(chance.integers(min(self._context, predicted - self._context + 1)))
        starts = chance.permutation(np.arange(first, predicted - self._context + 1, self._context))
        return np.split(starts, range(self._rows, len(starts), self._rows))

    def batch(self, rows: np.ndarray, epoch: int = 0) -> TextBatch | None:
        places = rows[:, None] + np.arange(self._context + 1)
        return TextBatch(torch.from_numpy(self._store.ids[places].astype(np.int64))) if len(rows) else None
