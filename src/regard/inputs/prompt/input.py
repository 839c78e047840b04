"""A prompt comes in: text that is gone on from. There is no encoder, as whoever goes on reads the prompt, too.

Training reads plain text, in windows: each of its tokens is what comes out after those before it.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.data.check_report import CheckReport
from regard.data.tables import Role
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.errors import CallError
from regard.inputs.base import Input, Targets, Vocabulary
from regard.inputs.prompt.check import check
from regard.inputs.prompt.prepare import TextPart, prepare_text, refuse_if_useless, store_text
from regard.inputs.prompt.store import TextStore
from regard.layers.embedding import Embedding
from regard.look.axis import Axis, Token
from regard.settings.recipe import Recipe


class Prompt(NamedTuple):
    """Tokens as a model reads them, the one that begins a text included."""

    text: str
    ids: list[int]


class PromptInput(Input):
    kind: ClassVar[str] = "text"
    recipe: Any  # of a language model: its data, its context, and whether prompts begin a text

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        self._tokenizer: Tokenizer | None = None

    # ------------------------------------------------------------------------------------------------------- the files
    def prepare(self, cache: Path, targets: Targets, *, strict: bool = True) -> dict[Role, TextStore]:
        prepared = prepare_text(self.data, cache, tokenizer=self._tokenizer, strict=strict)
        self._tokenizer = prepared.tokenizer
        return prepared.stores

    def check(self, splits: dict[Role, TextStore], vocabulary: Vocabulary) -> CheckReport:
        return check(splits, vocabulary.size, self.context, self.data.max_bad)

    def test(self) -> tuple[TextStore, str]:
        """The test text, or the validation text if there is none."""
        data = self.data.model_copy(update={"cache": None})
        with TemporaryDirectory(prefix="regard-text-", ignore_cleanup_errors=True) as folder:  # its files stay mapped
            if data.test is None:
                store = prepare_text(data, Path(folder), tokenizer=self.tokenizer).valid
            else:
                part = TextPart(data.test, "test", data.documents)
                store = store_text(Path(folder), part, self.tokenizer)
                refuse_if_useless(store, part, data.max_bad)
        return store, f"{store.counts.bad} lines that are no text" if store.counts.bad else ""

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)

    def restore(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.of_run(folder)

    # ------------------------------------------------------------------------------------------------------- one's own
    def read(self, one: Any) -> Prompt:
        """After the begin token, if texts begin there or there is nothing else to read."""
        if not isinstance(one, str):
            raise CallError(f"a prompt is a text, not {type(one).__name__}")
        ids, special, begin = self.tokenizer.encode(one), self.tokenizer.specials, self.recipe.decoding.begin
        first = special.start if special.start is not None else special.end
        wanted = self.data.documents != "file" if begin is None else begin
        if ids and not (wanted and first is not None):
            return Prompt(one, ids)
        if first is None:
            raise CallError("an empty prompt needs a begin token, which this vocabulary does not have: give a prompt")
        return Prompt(one, [first, *ids])

    def length(self, item: Prompt) -> int:
        return len(item.ids)

    def collate(self, items: Sequence[Prompt]) -> Int[Tensor, "B T"]:
        """Filled up at the end, where nobody looks: a token is read with those before it alone."""
        table = np.zeros((len(items), max((len(item.ids) for item in items), default=0)), np.int64)
        for row, item in zip(table, items, strict=True):
            row[: len(item.ids)] = item.ids
        return torch.from_numpy(table)

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        raise CallError("a prompt has no encoder: what goes on from it reads it")

    # --------------------------------------------------------------------------------------------------------- looking
    def axis(self, item: Prompt) -> Axis:
        """The tokens with their places in the text that they make together."""
        tokenizer, ids = self.tokenizer, item.ids
        tokens = [
            Token(label, special=True)
            if index in tokenizer.specials.names
            else Token(label, (span.start, span.end), span.word)
            for index, label, span in zip(ids, tokenizer.labels(ids), tokenizer.decoded_spans(ids), strict=True)
        ]
        return Axis(tuple(tokens), tokenizer.decode(ids))

    def without(self, item: Prompt, parts: Collection[int]) -> Prompt:
        gone = {place for part, place in enumerate(self.parts(item)) if part in parts}
        return item._replace(ids=[index for place, index in enumerate(item.ids) if place not in gone])

    def vectors(self, encoder: nn.Module) -> nn.Module:
        """`encoder`: what reads the prompt, which is a decoder."""
        embedding = encoder.embedding
        assert isinstance(embedding, Embedding)
        return embedding.table

    def gather(self, item: Prompt, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        return np.concatenate(products).sum(-1)[:, self.parts(item)]

    # ----------------------------------------------------------------------------------------------------------- parts
    @property
    def data(self) -> Any:
        return self.recipe.data

    @property
    def context(self) -> int:
        """Tokens that the model looks back at."""
        return self.recipe.model.context

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise RuntimeError("there is no vocabulary yet: prepare or restore comes first")
        return self._tokenizer
