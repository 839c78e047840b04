"""What is told while it goes on, apart from the results."""

import importlib.util
import sys


def has(package: str) -> bool:
    found = importlib.util.find_spec(package) is not None
    if not found:
        say(f"{package} is not installed, and left out (benchmarks/peers.txt)")
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr)
