"""Prompt input: text that a model continues. There is no encoder, as the decoder reads the prompt, too.

Training reads plain text in windows; each token is the target for the tokens before it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.data.batches import BatchList, pad_rows, random_generator
from regard.data.check import DataCheck
from regard.data.check_report import CheckReport
from regard.data.pairs import SkippedLine, unknown_in
from regard.data.prepare import PrepareCache
from regard.data.store import Store, StoreWriter, ids_array
from regard.data.tables import Role
from regard.data.tokenizer import Tokenizer
from regard.data.vocabulary import Targets, Vocabulary
from regard.errors import CallError
from regard.inputs.prompt.files import (
    BLOCK,
    TextPart,
    TextPiece,
    counted_text,
    prompt_ids,
    text_bytes,
    text_for_test,
    text_parts,
)
from regard.inputs.text_axis import written_axis
from regard.inputs.tokenized import TokenizedInput
from regard.look.axis import Axis
from regard.models.language_model import TextBatch

# Plain text as token ids on disk (`data/store.py`).
#
#     tokens   begin text end begin text end …, one document after the other
#
# If a vocabulary has one token for begin and end (GPT-2), it occurs once between documents, and at the very start.
#
# Each epoch cuts the text into windows of `context` tokens, from a random offset, and shuffles them. Every token is
# predicted once an epoch, each time at a different place of its window. A window has one token more than it predicts
# from; it is the first of the next window.
#
# Random numbers depend on (seed, epoch) alone, and batches do not depend on the number of processes.

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


def write_text(folder: Path, items: Iterable[TextPiece | SkippedLine], tokenizer: Tokenizer, *, name: str) -> None:
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


class TextWindows(BatchList[TextBatch | None]):
    """Batches of a store for each epoch: `rows` windows each; the last one may have fewer."""

    def __init__(self, store: TextStore, context: int, rows: int, *, seed: int = 0) -> None:
        if len(store) < 2:
            raise CallError(f"{store.name}: has {len(store)} tokens, too few to train on")
        super().__init__(seed=seed)
        self._store, self._context, self._rows = store, min(context, len(store) - 1), rows

    def _plan(self, epoch: int) -> list[np.ndarray]:
        """Return the starts of the windows."""
        chance, predicted = random_generator(self._seed, epoch), len(self._store) - 1
        first = int(chance.integers(min(self._context, predicted - self._context + 1)))
        starts = chance.permutation(np.arange(first, predicted - self._context + 1, self._context))
        return np.split(starts, range(self._rows, len(starts), self._rows))

    def batch(self, rows: np.ndarray, epoch: int = 0) -> TextBatch | None:
        places = rows[:, None] + np.arange(self._context + 1)
        return TextBatch(torch.from_numpy(self._store.ids[places].astype(np.int64))) if len(rows) else None


FEW_WINDOWS = 20  # of training text; with fewer, a model can only memorize it
MANY_UNKNOWN = 0.001


class Prompt(NamedTuple):
    """Tokens as a model reads them, including the begin token."""

    text: str
    ids: list[int]


class PromptInput(TokenizedInput):
    kind: ClassVar[str] = "text"
    recipe: Any  # of a language model: its data, its context, and whether a prompt gets a begin token

    # ------------------------------------------------------------------------------------------------------- the files
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, TextStore]:
        """Learn the vocabulary from training text only; from an even sample of its pieces if there is much."""
        steps, how = PrepareCache.of(self.data, cache, strict=strict), self.data.tokenizer
        parts = text_parts(self.data, steps)
        train = parts["train"]

        def texts() -> Iterator[str]:
            pieces, whole = (
                (item.text for item in train.read() if isinstance(item, TextPiece)),
                text_bytes(steps, train),
            )
            return islice(pieces, 0, None, max(1, whole // how.learn_from) if whole > BLOCK else 1)

        self.learn_once(steps, train.depends_on(), texts)
        return {role: self._store(steps, role, part) for role, part in parts.items()}

    def _store(self, steps: PrepareCache, role: Role, part: TextPart) -> TextStore:
        tokenizer = self.tokenizer

        def write(folder: Path, name: str, items: Iterable[TextPiece | SkippedLine]) -> None:
            write_text(folder, items, tokenizer, name=name)

        return steps.store(TextStore, role, part, tokenizer.to_json(), write)

    @property
    def tokenizer_kind(self) -> Any:
        """Return the tokenizer kind: bpe of language models works on bytes and is lossless."""
        return "bytes" if self.data.tokenizer.kind == "bpe" else self.data.tokenizer.kind

    def check(self, splits: dict[Role, TextStore], vocabulary: Vocabulary) -> CheckReport:
        found = DataCheck(splits, noun="line", sides=("text", "text"), max_bad=self.data.max_bad)
        found.unknown(0, self.unknown_advice(vocabulary.size), MANY_UNKNOWN)
        table = []
        for role, store in splits.items():
            tokens, totals = store.counts.sides[0].tokens, {name: int(one) for name, one in store.counts.totals.items()}
            a_token = f"{store.bytes / max(1, tokens):.2f}"
            lost = store.counts.read.bad
            table.append({"split": role, **totals, "tokens": tokens, "bytes a token": a_token, "lines lost": lost})
            windows, context = len(store) // self.context, f"model.context={self.context}"
            if len(store) <= self.context:
                what = f"{len(store):,} tokens are less than one window of {context}"
                found.add("warning", role, what, "lower model.context, or give more text", count=len(store))
            elif role == "train" and windows < FEW_WINDOWS:
                what = f"{len(store):,} tokens are only {windows} windows of {context}"
                found.add("note", role, what, "the model will memorize the text", count=len(store))
        report = found.report({"text": vocabulary.size})
        return replace(report, splits={}, tables={"text": table})

    @property
    def has_test_data(self) -> bool:
        return True  # the validation text, if there is no other

    @property
    def has_test_part(self) -> bool:
        return self.data.test is not None or self.data.test_share > 0

    @property
    def test_name(self) -> str:
        return super().test_name if self.has_test_part else "validation data: there is no test data"

    def test(self) -> tuple[TextStore, str]:
        """Return the test text, or the validation text if there is none."""
        data = self.data
        with TemporaryDirectory(prefix="regard-text-", ignore_cleanup_errors=True) as folder:  # its files stay mapped
            steps = PrepareCache(data, Path(folder))
            part = text_for_test(data, steps) or text_parts(data, steps)["valid"]
            store = self._store(steps, "test", part)
        bad = store.counts.read.bad
        return store, f"{bad} lines that are no text" if bad else ""

    # --------------------------------------------------------------------------------------------------- single inputs
    def read(self, one: Any) -> Prompt:
        """Read a prompt. A begin token comes first if texts start with one or if the prompt is empty."""
        if not isinstance(one, str):
            raise CallError(f"a prompt is a text, not {type(one).__name__}")
        return Prompt(one, prompt_ids(self.tokenizer, one, self.recipe.decoding.begin, self.data.documents))

    def length(self, item: Prompt) -> int:
        return len(item.ids)

    def collate(self, items: Sequence[Prompt]) -> Int[Tensor, "B T"]:
        """Pad a batch at the end, where padding is not attended to: a token attends only to those before it."""
        return pad_rows([np.array(item.ids, np.int64) for item in items])

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        raise CallError("a prompt has no encoder: the decoder reads it")

    # ---------------------------------------------------------------------------------------------------- explanations
    def axis(self, item: Prompt) -> Axis:
        """Return the axis of tokens with their positions in the text that they form."""
        return written_axis(self.tokenizer, item.ids, self.tokenizer.specials.names)

    def without(self, item: Prompt, parts: Collection[int]) -> Prompt:
        gone = {place for part, place in enumerate(self.parts(item)) if part in parts}
        return item._replace(ids=[index for place, index in enumerate(item.ids) if place not in gone])

    def gather(self, item: Prompt, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        return np.concatenate(products).sum(-1)[:, self.parts(item)]

    # ----------------------------------------------------------------------------------------------------------- parts
    @property
    def context(self) -> int:
        """Number of tokens that the model can attend to."""
        return self.recipe.model.context
