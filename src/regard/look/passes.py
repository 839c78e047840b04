"""Run a model on many rows in groups, with the memory of one group."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from regard.work import before_step

AT_ONCE = 4096  # vectors that go through a model together
T = TypeVar("T")


def in_passes(
    rows: Sequence[T], vectors: int, one_pass: Callable[[Sequence[T]], Tensor], *, at_once: int = AT_ONCE
) -> Tensor:
    """Apply `one_pass` to all rows in groups and concatenate the results (N …).

    Gradients need a single pass, so at most `rows_at_once` rows."""
    most = len(rows) if torch.is_grad_enabled() else rows_at_once(vectors, at_once)
    before_step(len(rows) * vectors)  # of all of them: too large a request fails before it starts
    found = []
    for start in range(0, len(rows), max(1, most)):
        found.append(one_pass(rows[start : start + most]))
        before_step(0)
    return torch.cat(found)


def rows_at_once(vectors: int, at_once: int = AT_ONCE) -> int:
    return max(1, at_once // max(1, vectors))
