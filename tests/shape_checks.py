"""Shapes and types are checked the first times that a test calls a function, and what checks them is made at the first.

A training calls the same functions thousands of times, with what they were called with before: to check all of it, and
to make checks of the thousands of functions that a process never calls, took more time than what is tested.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from types import CodeType
from typing import Any

import jaxtyping
from jaxtyping import _decorator

TIMES = 20
_every_time = jaxtyping.jaxtyped
_test = 0


def begin_test() -> None:
    global _test
    _test += 1


class _Calls:
    """Of a function; of one inside another, which is made anew whenever the other is called, of all that it becomes."""

    def __init__(self, inner: bool) -> None:
        self.times, self.test, self.left = (1 if inner else TIMES), -1, 0

    def is_checked(self) -> bool:
        if self.test != _test:
            self.test, self.left = _test, self.times
        self.left -= 1
        return self.left >= 0 and not jaxtyping.config.jaxtyping_disable


_calls: dict[CodeType, _Calls] = {}


def _first_times(fn: Any = _decorator._sentinel, *, typechecker: Any = _decorator._sentinel) -> Any:
    """`jaxtyping.jaxtyped`, of functions; what it makes of classes and properties has this in it."""
    if not inspect.isfunction(fn):
        return _every_time(fn, typechecker=typechecker)
    checked: Callable[..., Any] | None = None
    calls = _calls.setdefault(fn.__code__, _Calls(inner="<locals>" in fn.__qualname__))

    @wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal checked
        __tracebackhide__ = True
        if not calls.is_checked():
            return fn(*args, **kwargs)
        checked = checked or _every_time(fn, typechecker=typechecker)
        return checked(*args, **kwargs)

    return called


def install() -> None:
    """Before the first module of regard is imported."""
    jaxtyping.jaxtyped = _decorator.jaxtyped = _first_times
