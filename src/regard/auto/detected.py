"""What was detected in data, and its description in words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Detected:
    """What was detected. `kinds`: input and output. `data`: settings that name files and columns. `inputs` and
    `targets`: of some examples, as in `Sample`. `beliefs`: descriptions in words. `doubt`: the alternative reading;
    empty if there is none."""

    kinds: tuple[str, str]
    data: dict[str, Any]
    count: int
    inputs: Sequence[Any]
    targets: Sequence[str]
    beliefs: list[str] = field(default_factory=list)
    shown: Sequence[tuple[str, str]] = ()  # three examples to show to the user
    doubt: str = ""


def first_three(inputs: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    return [(str(one), str(other)) for one, other in zip(inputs[:3], targets[:3], strict=False)]


def picture_sizes(facts: Sequence[tuple[int, int, bool]]) -> str:
    heights, widths = sorted(fact[0] for fact in facts), sorted(fact[1] for fact in facts)
    color = "color" if any(fact[2] for fact in facts) else "gray"
    usual = f"{heights[len(heights) // 2]}×{widths[len(widths) // 2]}"
    return f"{color} pictures, usually of {usual} pixels ({len(facts)} were opened)"


def sound_lengths(facts: Sequence[tuple[int, float]]) -> str:
    rates, seconds = sorted({fact[0] for fact in facts}), sorted(fact[1] for fact in facts)
    hertz = " and ".join(f"{rate:,}" for rate in rates[:3])
    return f"recordings of {seconds[0]:.2g} to {seconds[-1]:.3g} seconds at {hertz} Hz ({len(facts)} were opened)"


def class_counts(labels: Iterable[str] | Counter[str]) -> str:
    counted = Counter(labels)
    counts = counted.most_common()
    first = ", ".join(f"{name} ({count:,})" for name, count in counts[:5])
    return f"{len(counts):,} classes in {counted.total():,} examples: {first}{', …' if len(counts) > 5 else ''}"
