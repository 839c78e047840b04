"""Refuse a model that does not fit into memory while it is built, before memory runs out."""

import math
import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.errors import CallError

MAKERS = {torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.arange}
MOST = 5_000  # weights, each a matrix or a vector: as in several hundred layers
LONGEST = 2**24  # size of one axis: more than any vocabulary or window has


def within_memory(build: Callable[[], nn.Module], memory: int | None = None) -> nn.Module:
    """Return `build()`, or raise a `CallError` as soon as it takes more than `memory` bytes (default: all memory)."""
    with _Counting(memory or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")):
        return build()


class _Counting(TorchFunctionMode):
    """Compute the size of every new tensor before it is made (on `meta`, which uses no memory)."""

    def __init__(self, memory: int) -> None:
        super().__init__()
        self.memory, self.bytes, self.weights = memory, 0, 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in MAKERS:
            self._count(func, args, kwargs)
        return func(*args, **kwargs)

    def _count(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            if func is torch.arange:  # on `meta` it would import half of torch's compiler, which takes seconds
                longest = len(range(*map(math.ceil, args)))
                size = 8 * longest
            else:
                planned = func(*args, **{**kwargs, "device": "meta"})
                longest, size = max(planned.shape, default=0), planned.nbytes
        except (RuntimeError, TypeError, OverflowError):  # too large for torch to count
            longest, size = LONGEST + 1, 0
        self.bytes += size
        self.weights += 1
        if longest > LONGEST:
            raise CallError(
                f"the model is too large: a weight would have more than {LONGEST:,} rows or columns; "
                "make the sizes of model (width, context, ...) smaller"
            )
        if self.bytes > self.memory:
            raise CallError(
                f"the model is too large for this machine: its weights alone take more than {self.memory / 1e9:,.3g} GB"
                ", all of its memory; make the sizes of model (width, layers, ...) smaller"
            )
        if self.weights > MOST:
            raise CallError(f"the model has more than {MOST:,} tables of weights; use fewer layers in model")
