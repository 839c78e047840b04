"""What a head is for: how much of its weight falls where a head of a certain kind would look, and what chance gives.

    share = mean over rows r of  Σ_j A_rj [j ∈ M_r]          chance = mean over rows of  |M_r| / |what r may see|

M_r is where row r would have to look; rows that have no such place do not count.

    within a text     previous, next, itself; the same token elsewhere; induction: what came after the same token before
                      (Olsson et al. 2022, arXiv:2209.11895); the first token, where heads look that have nothing to
                      look for (Xiao et al. 2023, arXiv:2309.17453); the last; special tokens; copying: the token
                      that is written next, where it was read before
    over the source   copying: the same token on the other side; diagonal: the same share of the way; first, last,
                      special

Voita et al. 2019, section 5 (arXiv:1905.09418), name heads in this way; Michel et al. 2019 (arXiv:1905.10650) ask what
is lost without each.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from regard.look.axis import Axis

Places = Bool[np.ndarray, "Q K"]


def places_within(tokens: Axis, *, causal: bool) -> dict[str, Places]:
    """Of self-attention: row r stands at column r."""
    labels, special = _columns(tokens)
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
    _, special = _columns(columns)
    Q, K = len(rows), len(columns)
    row, column = np.indices((Q, K))
    return {
        "copying": copied(rows, columns),
        "diagonal": np.abs((row + 0.5) / Q - (column + 0.5) / K) <= max(1 / Q, 1 / K),
        "first": column == 0,
        "last": column == K - 1,
        "special": np.broadcast_to(special, (Q, K)),
    }


def copied(rows: Axis, columns: Axis) -> Places:
    """Where the token stands that the row says."""
    (said, ending), (labels, _) = _columns(rows), _columns(columns)
    return (said[:, None] == labels[None, :]) & ~ending[:, None]


def shares(
    weights: Float[np.ndarray, "H Q K"], places: Places, allowed: Places
) -> tuple[Float[np.ndarray, " H"], float, int]:
    """Sums over rows of what each head has there and of chance, and how many rows count."""
    places = places & allowed
    rows = places.any(axis=1)
    mass = (weights * places).sum(axis=2)[:, rows].sum(axis=1)
    chance = (places[rows].sum(axis=1) / allowed[rows].sum(axis=1)).sum()
    return mass, float(chance), int(rows.sum())


def _columns(axis: Axis) -> tuple[np.ndarray, np.ndarray]:
    labels: Sequence[str] = [label.strip().casefold() for label in axis.labels]
    return np.array(labels, dtype=object), np.array([token.special for token in axis.tokens])
