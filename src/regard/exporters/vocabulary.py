"""A vocabulary as a list that has an entry for each row of the weights, also where the tokenizer has a hole."""

from regard.data.tokenizer import Tokenizer
from regard.errors import CallError


def entries(tokenizer: Tokenizer, rows: int) -> list[str]:
    """Return the entry of each id. An unused id is called `<unused_7>`."""
    found = [tokenizer.entry(index) for index in range(rows)]
    if tokenizer.size > rows:
        raise CallError(f"{tokenizer.size} tokens do not fit weights for {rows}")
    known = set(found)
    unused = (name for name in (f"<unused_{number}>" for number in range(2 * rows)) if name not in known)
    return [next(unused) if entry is None else entry for entry in found]
