"""Monthly share prices of five companies, 2000 to 2010, from the package vega_datasets: real data on any machine.

The lectures' example: predict one company's price from others'. One column per company; Google's listing began in
August 2004, so it is left out, and every month has every price.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from regard.errors import CallError, pip_install

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
