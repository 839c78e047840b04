"""Readable numbers with units."""

import math

_DURATIONS = (
    (1e-3, 1e-6, "µs"),  # below this many seconds, shown in units of this many seconds, by this name
    (1.0, 1e-3, "ms"),
    (60.0, 1.0, "s"),
    (3600.0, 60.0, "min"),
    (48 * 3600.0, 3600.0, "h"),
    (math.inf, 86400.0, "days"),
)


def duration(seconds: float) -> str:
    """Format a duration with a suitable unit: `35 µs`, `1.2 s`, `3.5 days`."""
    unit, name = next((unit, name) for limit, unit, name in _DURATIONS if seconds < limit)
    return f"{_three_digits(seconds / unit)} {name}"


def count(number: int | float) -> str:
    """Format a count in thousands, millions, billions (10⁹), trillions: `65.1M`, `1.56B`."""
    for size, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{_three_digits(number / size)}{suffix}"
    return f"{number:.0f}"


def memory(size: int | float) -> str:
    """Format bytes in powers of 1000, as GPU manufacturers do: `80 GB`."""
    for unit, suffix in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{_three_digits(size / unit)} {suffix}"
    return f"{size:.0f} B"


def operations(number: int | float) -> str:
    """Format floating-point operations: `126 MFLOP`, and from 10¹⁵ on as in papers, `3.3e18 FLOP`."""
    if number >= 1e15:
        return f"{number:.2g} FLOP".replace("e+", "e")
    for unit, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{_three_digits(number / unit)} {prefix}FLOP"
    return f"{number:.0f} FLOP"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
