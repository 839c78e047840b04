"""How a language model itself goes on: what an export of it is held against."""

from collections.abc import Sequence
from typing import Any

import torch

from regard.api import Run

WRITTEN = 16  # tokens that both go on with, in the check


def unsaid(special: Any) -> list[int]:
    """The special tokens that are never written."""
    return sorted({special.pad, special.unk, special.start} - {special.end, None})


def greedy_tokens(run: Run, read: Sequence[int], most: int) -> list[int]:
    """The most probable tokens after those that were read, the end included."""
    model, output = run.model, run.job.output
    special = output.tokenizer.specials  # pyright: ignore[reportAttributeAccessIssue]
    said: list[int] = []
    while len(said) < most and (not said or said[-1] != special.end):
        logits = model.logits(model.features(torch.tensor([[*read, *said]]))[:, -1])[0]  # pyright: ignore[reportCallIssue]
        logits[unsaid(special)] = -torch.inf
        said.append(int(logits.argmax()))
    return said
