"""What an output saw that is read off the encoder's vectors, with no decoder between: a label, a tag, a vector.

    by attention    the weights of the pooling
    first           the row of the first token ([CLS]), whose vector the answer is made of, in every layer and head
    mean            the mean over all rows of self-attention, as all of them are pooled alike
    rows at …       one thing is said of each of these vectors: their own rows

Rows of these tables are the output (`cross`); self-attention, vector by vector, is there too (`encoder`).
"""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from regard.look.case import Case, Table, by_role
from regard.look.records import Attention

Place = Callable[[Case, Sequence[Table]], list[Attention]]


def pooled(reading: str) -> Place:
    """For what is made of one vector: `reading` is attention, first or mean."""
    if reading == "attention":
        return by_role
    if reading == "first":
        return _read_off("first token", lambda weights: weights[:, :1])
    return _read_off("mean over rows", lambda weights: weights.mean(axis=1, keepdims=True))


def rows_at(places: Sequence[int]) -> Place:
    """For what is said of each of the vectors at these places."""
    return _read_off("its own row", lambda weights: weights[:, list(places)])


def _read_off(how: str, pick: Callable[[Float[np.ndarray, "H K K"]], Float[np.ndarray, "H T K"]]) -> Place:
    def place(case: Case, tables: Sequence[Table]) -> list[Attention]:
        own = [one for one in by_role(case, tables) if one.kind == "encoder"]
        cross = [
            Attention(f"{one.name} ({how})", "cross", one.layer, pick(one.weights), case.rows, one.columns)
            for one in own
        ]
        return [*cross, *own]

    return place
