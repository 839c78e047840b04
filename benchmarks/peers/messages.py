"""Messages of a running benchmark, and the comparison of two systems."""

import importlib
import importlib.util
import statistics
import sys
from typing import Any


def has(package: str) -> bool:
    found = importlib.util.find_spec(package) is not None
    if not found:
        say(f"{package} is not installed, and left out (benchmarks/peers.txt)")
    return found


def peer(module: str) -> Any:
    """A module of another library, without its types: whether it is installed makes no difference to pyright."""
    return importlib.import_module(module)


def say(text: str) -> None:
    print(text, file=sys.stderr)


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    """How many times as fast we are: the median over the turns, each of which had the machine in the same mood."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
