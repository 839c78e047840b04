"""Language-model scores of a text: loss per token, perplexity, bits per byte.

    loss = −(1/n) Σ_t log p(y_t | y_{t−c} … y_{t−1})    perplexity = e^loss    bits per byte = n · loss / (ln 2 · bytes)

Bits per byte are comparable across vocabularies, because the number of bytes does not depend on the tokens.

A model reads `context` tokens. In adjacent windows, the first tokens of each have little context. Overlapping windows
(moved by `stride` tokens; only new tokens are counted) give every token at least context − stride tokens of context,
for context/stride times the work. Press et al. 2020, section 3 (arXiv:2012.15832).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.inputs.prompt.input import TextStore
from regard.models.language_model import NO_TOKEN, LanguageModel

AT_ONCE = 1024  # tokens whose probabilities over the whole vocabulary are in memory at a time


@dataclass(frozen=True)
class TextLoss:
    """Sums over the predicted tokens: all but the first."""

    total: float
    tokens: int
    correct: int
    bytes: int

    def values(self) -> dict[str, float]:
        loss = self.total / max(1, self.tokens)
        return {
            "loss": loss,
            "accuracy": 100 * self.correct / max(1, self.tokens),
            "perplexity": math.exp(min(loss, 700.0)),
            "bits_per_byte": self.total / math.log(2) / max(1, self.bytes),
        }


@torch.inference_mode()
def text_loss(model: LanguageModel, store: TextStore, *, context: int, stride: int, rows: int) -> TextLoss:
    """Return the loss of a whole store, each token counted once."""
    device = next(model.parameters()).device
    total, tokens, correct = 0.0, 0, 0
    for window, counted in sliding(store, context, stride, rows):
        features = model.features(window[:, :-1].to(device))
        chosen = counted.to(device)
        found = model.loss(features[chosen], window[:, 1:].to(device)[chosen], pad=NO_TOKEN)
        assert found.correct is not None
        total, tokens, correct = total + float(found.total), tokens + found.count, correct + int(found.correct)
    return TextLoss(total, tokens, correct, store.bytes)


@torch.inference_mode()
def token_bits(
    model: LanguageModel, store: TextStore, *, context: int, stride: int, rows: int
) -> Float[np.ndarray, " T"]:
    """Return −log₂ p of every token of a store but the first, in order; `text_loss` is their sum."""
    device, found = next(model.parameters()).device, []
    for window, counted in sliding(store, context, stride, rows):
        features, targets = model.features(window[:, :-1].to(device))[counted.to(device)], window[:, 1:][counted]
        for some, right in zip(features.split(AT_ONCE), targets.split(AT_ONCE), strict=True):
            logs = model.logits(some).float().log_softmax(-1)
            found.append(-logs.gather(1, right.to(device)[:, None])[:, 0].cpu().numpy() / math.log(2))
    return np.concatenate(found).astype(np.float64)


def sliding(
    store: TextStore, context: int, stride: int, rows: int
) -> Iterator[tuple[Int[Tensor, "B T"], Bool[Tensor, "B t"]]]:
    """Yield windows of context + 1 tokens, and which of the last `context` are counted; the last window may be
    shorter.
    """
    predicted = len(store) - 1
    width = min(context, predicted)
    starts = np.arange(0, predicted - width + 1, min(stride, width))
    groups = [starts[place : place + rows] for place in range(0, len(starts), rows)]
    ends = int(starts[-1]) + width
    if ends < predicted:  # one more window, up to the end
        groups.append(np.array([predicted - width]))
    done = 0  # tokens counted so far
    for group in groups:
        window = torch.from_numpy(store.ids[group[:, None] + np.arange(width + 1)].astype(np.int64))
        last = np.minimum(group + width, predicted)
        first = np.concatenate([[done], last[:-1]])
        place = group[:, None] + np.arange(width)
        yield window, torch.from_numpy((place >= first[:, None]) & (place < last[:, None]))
        done = int(last[-1])
