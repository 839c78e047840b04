"""Roles of heads: the share of weight on the columns of each role, and the share by chance.

    share = mean over rows r of  Σ_j A_rj [j ∈ M_r]          chance = mean over rows of  |M_r| / |what r may see|

M_r is where row r would have to look; rows that have no such place do not count. A row is taken to sum to one, also
where only a part of what it looks at is shown.

    within a text     previous, next, itself; the same token elsewhere; induction: what came after the same token before
                      (Olsson et al. 2022, arXiv:2209.11895); the first token, where heads look that have nothing to
                      look for (Xiao et al. 2023, arXiv:2309.17453); the last; special tokens; copying: the token
                      that is written next, where it was read before
    over the source   copying: the same token on the other side; special; diagonal: the same share of the way, first and
                      last, but for a picture, whose regions have no order; of two inputs, a picture and a text, the
                      regions or the words

Voita et al. 2019, section 5 (arXiv:1905.09418), name heads in this way; Michel et al. 2019 (arXiv:1905.10650) ask what
is lost without each.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from jaxtyping import Bool, Float

from regard.look.axis import Axis
from regard.look.card import normalize_rows
from regard.look.records import Attention, AttentionRecord

POSITIONAL = "positional"  # not by where a head looks, but by whether it goes on to when contents are shuffled
CLEAR = 0.2  # more than chance, for a role to be in a head's name
Places = Bool[np.ndarray, "Q K"]


def above_chance(records: Iterable[AttentionRecord]) -> dict[str, dict[str, float]]:
    """Of each head, such as "cross.0.1", by what its share of each role is above chance."""
    sums: dict[str, dict[str, np.ndarray]] = defaultdict(lambda: defaultdict(lambda: np.zeros(2)))
    for record in records:
        for one in record.attentions:
            for role, mass, chance, rows in role_shares(record.axes, one):
                for head, own in enumerate(mass):
                    sums[f"{one.kind}.{one.layer}.{head}"][role] += (own - chance, rows)
        for name, share in record.positional.items():
            sums[name][POSITIONAL] += (share, 1)
    return {
        head: {role: float(above / rows) for role, (above, rows) in roles.items() if rows}
        for head, roles in sums.items()
    }


def role_shares(axes: Mapping[str, Axis], one: Attention) -> Iterator[tuple[str, np.ndarray, float, int]]:
    """Every role with its `shares`; none, where rows and columns are not the same text, and neither a text and its
    source."""
    rows, columns, weights = axes[one.rows], axes[one.columns], normalize_rows(one.weights)
    _, Q, K = weights.shape
    if one.kind == "cross":
        found, allowed = places_across(rows, columns), np.ones((Q, K), bool)
    elif Q == K:
        causal = one.kind == "decoder"
        found, allowed = places_within(columns, causal=causal), np.ones((Q, K), bool)
        if one.rows != one.columns:  # what is written is not what was read
            found["copying"] = copy_targets(rows, columns)
        allowed = np.tril(allowed) if causal else allowed
    else:
        return
    for role, places in found.items():
        yield role, *shares(weights, places, allowed)


def places_within(tokens: Axis, *, causal: bool) -> dict[str, Places]:
    """Of self-attention: row r stands at column r."""
    labels, special = _numbers(tokens.labels), _specials(tokens)
    K = len(labels)
    row, column = np.indices((K, K))
    same = labels[:, None] == labels[None, :]
    after = np.zeros((K, K), bool)
    after[:, 1:] = same[:, :-1] & (row[:, 1:] > column[:, :-1])
    found = {
        "previous": column == row - 1,
        "next": column == row + 1,
        "itself": column == row,
        "same token": same & (column != row),
        "induction": after,
        "first": column == 0,
        "last": column == K - 1,
        "special": np.broadcast_to(special, (K, K)),
    }
    if causal:
        found = {name: places & (column <= row) for name, places in found.items() if name not in ("next", "last")}
    return found


def places_across(rows: Axis, columns: Axis) -> dict[str, Places]:
    """Of cross-attention."""
    special = _specials(columns)
    Q, K = len(rows), len(columns)
    row, column = np.indices((Q, K))
    found = {"copying": copy_targets(rows, columns), "special": np.broadcast_to(special, (Q, K))}
    if columns.grid is None:
        # |(row + ½)/Q − (column + ½)/K| ≤ max(1/Q, 1/K), times 2QK: whole numbers, in which a neighbor is one
        found["diagonal"] = np.abs((2 * row + 1) * K - (2 * column + 1) * Q) <= 2 * max(Q, K)
        found |= {"first": column == 0, "last": column == K - 1}
    if columns.after:
        words = (column >= K - columns.after) & ~special
        found |= {"words": words, "regions" if columns.grid else "frames": (column < K - columns.after) & ~special}
    return found


def copy_targets(rows: Axis, columns: Axis) -> Places:
    """Where the token stands that the row says."""
    numbers, ending = _numbers([*rows.labels, *columns.labels]), _specials(rows)
    said, labels = numbers[: len(rows)], numbers[len(rows) :]
    return (said[:, None] == labels[None, :]) & ~ending[:, None]


def shares(
    weights: Float[np.ndarray, "H Q K"], places: Places, allowed: Places
) -> tuple[Float[np.ndarray, " H"], float, int]:
    """Sums over rows of what each head has there and of chance, and how many rows count."""
    places = places & allowed
    rows = places.any(axis=1)
    mass = weights[:, places].sum(axis=1)
    chance = (places[rows].sum(axis=1) / allowed[rows].sum(axis=1)).sum()
    return mass, float(chance), int(rows.sum())


def _numbers(labels: Iterable[str]) -> np.ndarray:
    """Equal numbers for equal tokens."""
    return np.unique([label.strip().casefold() for label in labels], return_inverse=True)[1]


def _specials(axis: Axis) -> np.ndarray:
    return np.array([token.special for token in axis.tokens])
