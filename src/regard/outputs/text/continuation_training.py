"""Training of a language model: every token of plain text is the target of those before it, in windows."""

import numpy as np
import torch
from jaxtyping import Float

from regard.data.examples import Example
from regard.data.tokenizer import Tokenizer
from regard.inputs.prompt.input import PromptInput
from regard.inputs.prompt.store import TextStore, TextWindows
from regard.look.passes import AT_ONCE
from regard.models.language_model import LanguageModel
from regard.outputs.base import Output, Planned
from regard.outputs.baselines import ngram_bits
from regard.outputs.result import Measure, Scores, Tally
from regard.outputs.text.build import build_language_model
from regard.outputs.text.generate_settings import GenerateRecipe
from regard.outputs.text.perplexity import TextLoss, text_loss, token_bits
from regard.outputs.text.stream import token_of

SHOWN = 40  # tokens of a shown piece of validation text
BLOCK = 200  # tokens of test text that are resampled together, for an interval
BYTES = 260  # tokens of a vocabulary of bytes, the special ones included


class ContinuationTraining(Output[GenerateRecipe, PromptInput, LanguageModel]):
    @property
    def by_chance(self) -> bool:
        return self.recipe.decoding.temperature > 0

    def batches(self, split: TextStore, max_tokens: int, *, seed: int = 0) -> TextWindows:
        return TextWindows(split, self.context, max(1, max_tokens // self.context), seed=seed)

    def build(self) -> LanguageModel:
        return build_language_model(self.recipe.model, self.tokenizer.size, self.tokenizer.specials.pad)

    def planned(self) -> Planned:
        tokenizer = self.recipe.data.tokenizer
        with torch.device("meta"):
            model = build_language_model(self.recipe.model, BYTES if tokenizer.kind == "byte" else tokenizer.size)
        note = "the vocabulary is taken as full (data.tokenizer.size); small data fills less"
        return Planned(model, self.recipe.model.context, 1, note)

    def validate(self, model: LanguageModel, valid: TextStore) -> dict[str, float]:
        """Return loss, perplexity and bits per byte of all validation text, in adjacent windows."""
        return self._loss(model, valid, self.context).values()

    def some(self, valid: TextStore, most: int) -> list[Example]:
        """Return pieces of the validation text: the first half of each is the prompt, the rest is the reference."""
        length = min(SHOWN, self.context, len(valid))
        starts = range(0, len(valid) - length + 1, max(length, len(valid) // most))[:most]
        pieces = [valid.ids[start : start + length].tolist() for start in starts]
        decode, half = self.tokenizer.decode, length // 2
        return [Example(decode(piece[:half]), (decode(piece[half:]),)) for piece in pieces]

    def test_scores(self, model: LanguageModel, examples: TextStore, alignments: bool) -> Scores:
        """Return loss, perplexity and bits per byte of the test text, or of the validation text if there is none."""
        stride = self._stride
        found = self._loss(model, examples, stride)
        values = {**found.values(), "tokens": float(found.tokens), "bytes": float(found.bytes)}
        notes = {"text": examples.name, "window": f"{self.context} tokens, moved by {stride}"}
        if examples.unknown:
            notes["unknown"] = f"{examples.unknown:,} tokens are not in the vocabulary: bits per byte is too low"
        return Scores(values, notes, percent=["accuracy"])

    def measure(self) -> Measure:
        return Measure("bits_per_byte", higher_is_better=False, percent=False)

    def spread(self, examples: TextStore, most: int) -> TextStore:
        """Return the whole text: a part of a text is not a sample of texts."""
        return examples

    def answers(self, model: LanguageModel, examples: TextStore) -> Float[np.ndarray, " T"]:
        return token_bits(model, examples, context=self.context, stride=self._stride, rows=self._rows)

    def baselines(self, train: TextStore, examples: TextStore) -> dict[str, Float[np.ndarray, " T"]]:
        return {"n-gram model": ngram_bits(train.ids, examples.ids, self.tokenizer.size)}

    def tally(self, answers: Float[np.ndarray, " T"], examples: TextStore) -> Tally:
        """Return the tally over blocks of tokens, which are resampled together because neighboring tokens depend on
        each other.
        """
        blocks = np.arange(len(answers)) // BLOCK
        size = examples.bytes / max(1, len(answers))
        return Tally.of_shares(np.stack([np.bincount(blocks, answers), np.bincount(blocks) * size], 1))

    @property
    def _stride(self) -> int:
        return self.recipe.decoding.stride or max(1, self.context // 2)

    @property
    def _rows(self) -> int:
        return max(1, max(AT_ONCE, self.recipe.training.max_tokens) // self.context)

    def _loss(self, model: LanguageModel, store: TextStore, stride: int) -> TextLoss:
        return text_loss(model, store, context=self.context, stride=stride, rows=self._rows)

    @property
    def context(self) -> int:
        return self.recipe.model.context

    @property
    def tokenizer(self) -> Tokenizer:
        return self.input.tokenizer

    @property
    def vocabulary(self) -> Tokenizer:
        return self.tokenizer

    def choice(self, word: str) -> int:
        return token_of(self.tokenizer, word)
