"""Module hooks that act in one thread only.

Calls of a served model from other threads are not affected.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, NamedTuple

from torch import nn


class Before(NamedTuple):
    """Pre-forward hook: `change(module, args)` returns new arguments or None."""

    module: nn.Module
    change: Callable[[nn.Module, Any], Any]


class After(NamedTuple):
    """Forward hook: `change(module, args, output)` returns a new output or None."""

    module: nn.Module
    change: Callable[[nn.Module, Any, Any], Any]


@contextmanager
def hooked(hooks: Iterable[Before | After]) -> Iterator[None]:
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
