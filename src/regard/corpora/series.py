"""Embedded corpora of series: tables of named columns, the first of them times; and labeled series.

In a recipe, `data.train: corpus:stocks` means `load_series("stocks")`.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.errors import CallError, nearest, pip_install

# A follower series that repeats its driver with a lag: attention must find the lag.
#
#     driver_t ~ N(0, 1), independent        other_t ~ N(0, 1), independent        follower_t = driver_{t−lag} + 0.1
#     noise
#
# Nothing else predicts the follower: not its past, the other series, or any other step of the driver. So a model that
# predicts it has found the lag, and its attention should be there.

LAG, LENGTH, NOISE = 17, 4000, 0.1


def lag(steps: int = LAG, length: int = LENGTH, seed: int = 0) -> dict[str, np.ndarray]:
    """Return columns time, follower, driver and other; the follower is `steps` behind the driver."""
    chance = np.random.default_rng(seed)
    driver, other, noise = chance.standard_normal((3, length + steps))
    follower = driver[:length] + NOISE * noise[:length]
    return {"time": np.arange(length), "follower": follower, "driver": driver[steps:], "other": other[:length]}


# Monthly share prices of five companies, 2000 to 2010, from the package vega_datasets: real data on any machine.
#
# The lectures' example: predict one company's price from others'. One column per company; Google's listing began in
# August 2004, so it is left out, and every month has every price.

COMPANIES = ("MSFT", "AMZN", "IBM", "AAPL")


def stocks() -> dict[str, Sequence[Any]]:
    """Return columns date, MSFT, AMZN, IBM and AAPL: 123 months."""
    try:
        from vega_datasets import data
    except ImportError:
        raise CallError(f"the corpus 'stocks' needs vega_datasets: {pip_install('regard[series]')}") from None
    prices: dict[str, dict[datetime, float]] = {}
    header, *lines = data.stocks.raw().decode().splitlines()
    assert header == "symbol,date,price"
    for line in lines:
        symbol, day, price = line.split(",")
        prices.setdefault(symbol, {})[datetime.strptime(day, "%b %d %Y")] = float(price)
    months = sorted(prices[COMPANIES[0]])
    return {"date": months, **{company: [prices[company][month] for month in months] for company in COMPANIES}}


# Noisy series that contain one of five shapes, with its name as the label: attention over time must find it.
#
#     x_t = a · shape((t − start) / width) + 0.3 noise     inside of the shape, noise alone outside of it; 2 ≤ a ≤ 3
#
#     rise u        fall 1 − u        bump sin πu        step 1        wave sin 4πu            0 ≤ u < 1
#
# Series are 48 to 96 steps long, shapes 12 to 20 steps. Steps outside the shape are independent of its name. Every
# series depends only on its split and number.

SIZES = {"train": 1000, "valid": 100, "test": 200}
SHAPES = {
    "rise": lambda u: u,
    "fall": lambda u: 1 - u,
    "bump": lambda u: np.sin(np.pi * u),
    "step": np.ones_like,
    "wave": lambda u: np.sin(4 * np.pi * u),
}
SHAPE_NOISE = 0.3


class ShapeInSeries(NamedTuple):
    """A labeled series. `place`: the steps of the shape."""

    values: Float[np.ndarray, "T 1"]
    label: str
    place: range


def shapes_of_series(split: str) -> list[ShapeInSeries]:
    if split not in SIZES:
        raise CallError(f"shapes-of-series has no split {split!r}{nearest(split, SIZES)}")
    return [shape_in_series(split, number) for number in range(SIZES[split])]


def shape_in_series(split: str, number: int) -> ShapeInSeries:
    chance = np.random.Generator(np.random.Philox(np.random.SeedSequence([list(SIZES).index(split), number])))
    label = list(SHAPES)[number % len(SHAPES)]
    length, width = int(chance.integers(48, 97)), int(chance.integers(12, 21))
    start = int(chance.integers(0, length - width + 1))
    values = SHAPE_NOISE * chance.standard_normal(length)
    values[start : start + width] += chance.uniform(2, 3) * SHAPES[label](np.arange(width) / width)
    return ShapeInSeries(values[:, None], label, range(start, start + width))


LOADERS: dict[str, Callable[[], Mapping[str, Any]]] = {"stocks": stocks, "lag": lag}
LABELED: dict[str, Callable[[str], list[ShapeInSeries]]] = {"shapes-of-series": shapes_of_series}


def load_series(name: str) -> Mapping[str, Any]:
    """Return the columns of an embedded table, named with or without `corpus:`."""
    name = name.removeprefix("corpus:")
    if name not in LOADERS:
        raise CallError(f"unknown corpus of series: {name!r}{nearest(name, LOADERS)}")
    return LOADERS[name]()


def load_labeled_series(name: str, split: str) -> list[ShapeInSeries]:
    """Return the series of one split (train, valid or test) of an embedded corpus, named with or without `corpus:`."""
    name = name.removeprefix("corpus:")
    if name not in LABELED:
        raise CallError(f"unknown corpus of labeled series: {name!r}{nearest(name, LABELED)}")
    return LABELED[name](split)
