"""Shapes and types are checked the first times that a test calls a function, and what checks them is made at the first.

A training calls the same functions thousands of times, with what they were called with before: to check all of it, and
to make checks of the thousands of functions that a process never calls, took more time than what is tested.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

import jaxtyping
from jaxtyping import _decorator

TIMES = 20
_every_time = jaxtyping.jaxtyped
_test = 0


def begin_test() -> None:
    global _test
    _test += 1


def _first_times(fn: Any = _decorator._sentinel, *, typechecker: Any = _decorator._sentinel) -> Any:
    """`jaxtyping.jaxtyped`, of functions; what it makes of classes and properties has this in it."""
    if not inspect.isfunction(fn):
        return _every_time(fn, typechecker=typechecker)
    checked: Callable[..., Any] | None = None
    test, left = -1, 0

    @wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal checked, test, left
        __tracebackhide__ = True
        if test != _test:
            test, left = _test, TIMES
        if not left:
            return fn(*args, **kwargs)
        left -= 1
        checked = checked or _every_time(fn, typechecker=typechecker)
        return checked(*args, **kwargs)

    return called


def install() -> None:
    """Before the first module of regard is imported."""
    jaxtyping.jaxtyped = _decorator.jaxtyped = _first_times
