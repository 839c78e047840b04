"""Adapters that give an exported model the interface of a regard model."""

from collections.abc import Callable
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.loss import Loss
from regard.models.language_model import LanguageModel


def rounded(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The same model with its weights as they are in a file of these numbers, and computed with as before."""
    copy = deepcopy(model)
    for weights in copy.parameters():
        weights.data = weights.data.to(dtype).to(weights.dtype)
    return copy


class LogitsModel(LanguageModel):
    """Its features are logits already; `ask`: tokens → logits of what comes after each."""

    def __init__(self, like: LanguageModel, ask: Callable[[Tensor], Tensor]) -> None:
        nn.Module.__init__(self)
        self.pad, self.anchor = like.pad, nn.Parameter(torch.zeros(0))  # where it is: on the CPU
        self._ask = ask

    def features(self, tokens: Tensor) -> Tensor:
        return self._ask(tokens)

    def logits(self, features: Tensor) -> Tensor:
        return features

    def loss(self, features: Tensor, targets: Tensor, *, pad: int, smoothing: float = 0.0) -> Loss:
        total = F.cross_entropy(features, targets, ignore_index=pad, reduction="sum", label_smoothing=smoothing)
        real = targets != pad
        return Loss(total, int(real.sum()), ((features.argmax(-1) == targets) & real).sum())
