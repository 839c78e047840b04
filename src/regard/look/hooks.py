"""Module hooks that act in one thread only.

Calls of a served model from other threads are not affected.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from regard.work import before_step


class Before(NamedTuple):
    """Pre-forward hook: `change(module, args)` returns new arguments or None."""

    module: nn.Module
    change: Callable[[nn.Module, Any], Any]


class After(NamedTuple):
    """Forward hook: `change(module, args, output)` returns a new output or None."""

    module: nn.Module
    change: Callable[[nn.Module, Any, Any], Any]


@contextmanager
def active_hooks(hooks: Iterable[Before | After]) -> Iterator[None]:
    asking = get_ident()

    def own(change: Callable[..., Any]) -> Callable[..., Any]:
        def mine(*given: Any) -> Any:
            return change(*given) if get_ident() == asking else None

        mine.thread = asking  # pyright: ignore[reportFunctionMemberAccess]  (read by `layers/packed.py: listened`)
        return mine

    handles = []
    try:
        for one in hooks:
            add = one.module.register_forward_pre_hook if isinstance(one, Before) else one.module.register_forward_hook
            handles.append(add(own(one.change)))
        yield
    finally:
        for handle in handles:
            handle.remove()


# Run a model on many rows in groups, with the memory of one group.

ROWS_AT_ONCE = 4096  # vectors that go through a model together
T = TypeVar("T")


def in_passes(
    rows: Sequence[T], vectors: int, one_pass: Callable[[Sequence[T]], Tensor], *, at_once: int = ROWS_AT_ONCE
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


def rows_at_once(vectors: int, at_once: int = ROWS_AT_ONCE) -> int:
    return max(1, at_once // max(1, vectors))
