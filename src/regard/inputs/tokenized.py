"""Base of text inputs: a tokenizer, and an encoder that may come from another run."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regard.data.check import unknown_advice
from regard.data.prepare import PrepareCache, with_progress
from regard.data.settings import TokenizerSettings
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.errors import CallError
from regard.inputs.base import Input
from regard.inputs.text_axis import text_tokens
from regard.look.axis import Token
from regard.models.build import text_encoder
from regard.pretrained import encoder as pretrained_encoder
from regard.pretrained import keep_settings, kept_settings
from regard.settings.model import EncoderSettings, PretrainedSettings
from regard.settings.recipe import Recipe


class TokenizedInput(Input):
    def __init__(self, recipe: Recipe, section: Callable[[Any], Any] = lambda recipe: recipe.model) -> None:
        super().__init__(recipe, section)
        self._tokenizer: Tokenizer | None = None
        self._sizes: EncoderSettings | None = None  # of a pretrained encoder
        self._weights: dict[str, Tensor] | None = None  # initial weights of training

    @property
    def sizes(self) -> Any:
        """Settings of the encoder that is built; a pretrained encoder has its own."""
        return self._sizes if isinstance(self.settings, PretrainedSettings) else self.settings

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise RuntimeError("no vocabulary yet: call prepare or restore first")
        return self._tokenizer

    @property
    def pad(self) -> int:
        return self.tokenizer.specials.pad or 0

    def begin_with_pretrained(self) -> None:
        """Load tokenizer, sizes and weights of the pretrained encoder, if the recipe names one; a resumed run has
        them.
        """
        settings = self.settings
        if isinstance(settings, PretrainedSettings) and self._tokenizer is None:
            found = pretrained_encoder(settings.path, dropout=settings.dropout)
            self._sizes, self._tokenizer, self._weights = found.settings, found.tokenizer, found.weights
            limit = found.settings.max_positions
            if found.settings.positions == "learned" and self.data.max_length > limit:
                raise CallError(
                    f"data.max_length={self.data.max_length} is more than the {limit} positions that the encoder of "
                    f"{settings.path} knows"
                )

    def learn(self, texts: Iterable[str], total: int = 0) -> Tokenizer:
        """Return the tokenizer: that of a resumed run or a pretrained encoder, else one learned from these texts.

        `total`: their approximate number, to estimate the remaining time."""
        self.begin_with_pretrained()
        if self._tokenizer is None:
            how = self.data.tokenizer
            lowercase = isinstance(how, TokenizerSettings) and how.lowercase
            self._tokenizer = Tokenizer.train(
                with_progress(texts, "learning the vocabulary", total=total), self.tokenizer_kind,
                size=how.size, min_frequency=how.min_frequency, lowercase=lowercase,
            )  # fmt: skip
        return self._tokenizer

    def learn_once(
        self, steps: PrepareCache, key: Any, texts: Callable[[], Iterable[str]], total: int = 0
    ) -> Tokenizer:
        """Return the tokenizer from the cache; `key` identifies the texts, of which there are about `total`."""
        self.begin_with_pretrained()
        if self._tokenizer is None:
            key = [key, self.data.tokenizer.model_dump()]
            load = Tokenizer.from_json
            self._tokenizer = steps.vocabulary("vocabulary", key, lambda: self.learn(texts(), total), load)
        return self._tokenizer

    @property
    def tokenizer_kind(self) -> Any:
        return self.data.tokenizer.kind

    def unknown_advice(self, size: int) -> str:
        """Return advice for a vocabulary of `size` entries that misses much of the text."""
        if isinstance(self.settings, PretrainedSettings):
            return f"the encoder of {self.settings.path} does not know them; take another one, or train from scratch"
        return unknown_advice(self.data.tokenizer, size)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        if self._sizes is not None:
            keep_settings(self._sizes, folder)

    def restore(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.of_run(folder)
        if isinstance(self.settings, PretrainedSettings):
            self._sizes = kept_settings(folder)

    def encoder(self, decoder: Any = None) -> nn.Module:
        encoder = text_encoder(self.sizes, self.tokenizer.size, pad=self.pad)
        if (
            self._weights is not None and next(encoder.parameters()).device.type != "meta"
        ):  # on meta, it is only counted
            encoder.load_state_dict(self._weights)
        return encoder

    def vectors(self, encoder: nn.Module) -> nn.Module:
        """Return the word vector table of the `embedding` of an encoder."""
        return encoder.embedding.table  # pyright: ignore[reportReturnType, reportAttributeAccessIssue]

    def tokens(self, text: str, ids: Sequence[int], first: int = 0) -> list[Token]:
        """Return tokens of a text, numbered from `first`, with positions; unknown tokens as they are written."""
        return text_tokens(self.tokenizer, text, ids, first)
