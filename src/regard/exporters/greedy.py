"""Greedy decoding by a language model, to compare an export with."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.api import Run

WRITTEN = 16  # tokens that both go on with, in the check


def unsaid(special: Any) -> list[int]:
    """The special tokens that are never written."""
    return sorted({special.pad, special.unk, special.start} - {special.end, None})


def greedy_tokens(run: Run, read: Sequence[int], most: int) -> list[int]:
    """The most probable tokens after those that were read, the end included."""
    model: Any = run.model
    special = run.job.output.tokenizer.specials  # pyright: ignore[reportAttributeAccessIssue]
    return goes_on(lambda ids: model.logits(model.features(torch.tensor([ids]))[:, -1])[0], special, read, most)


def goes_on(ask: Callable[[list[int]], Tensor], special: Any, read: Sequence[int], most: int) -> list[int]:
    """Decode greedily from any function that returns next-token logits; `special`: tokens that are not text."""
    said: list[int] = []
    while len(said) < most and (not said or said[-1] != special.end):
        logits = ask([*read, *said]).clone()
        logits[unsaid(special)] = -torch.inf
        said.append(int(logits.argmax()))
    return said
