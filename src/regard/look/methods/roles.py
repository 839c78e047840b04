"""Roles of heads: the share of weight on the columns of each role, and the share by chance.

    share = mean over rows r of  Σ_j A_rj [j ∈ M_r]          chance = mean over rows of  |M_r| / |what r may see|

M_r are the columns of the role in row r; rows without such columns do not count. Rows are scaled to sum to one, also if
only a part of the columns is shown.

    within a text     previous, next, itself; the same token elsewhere; induction: the token after an earlier occurrence
                      of the same token (Olsson et al. 2022, arXiv:2209.11895); the first token, a target of heads with
                      nothing to look for (Xiao et al. 2023, arXiv:2309.17453); the last; special tokens; copying: an
                      earlier occurrence of the next token
    over the source   copying: the same token on the other side; special; diagonal: the same relative position, first
                      and last, except for a picture, whose regions have no order; for two inputs, a picture and a text,
                      the regions or the words

Voita et al. 2019, section 5 (arXiv:1905.09418), name heads in this way; Michel et al. 2019 (arXiv:1905.10650) measure
the loss without each.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from jaxtyping import Bool, Float

from regard.look.axis import Axis
from regard.look.card import normalize_rows
from regard.look.records import Attention, AttentionRecord

POSITIONAL = "positional"  # defined by shuffled contents, not by columns
CLEAR = 0.2  # share above chance from which a role names a head
Places = Bool[np.ndarray, "Q K"]


def above_chance(records: Iterable[AttentionRecord]) -> dict[str, dict[str, float]]:
    """Return for each head, such as "cross.0.1", its share of each role minus chance."""
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
    """Yield every role with its `shares`; none unless rows and columns are one text, or a text and its source."""
    rows, columns, weights = axes[one.rows], axes[one.columns], normalize_rows(one.weights)
    _, Q, K = weights.shape
    if one.kind == "cross":
        found, allowed = places_across(rows, columns), np.ones((Q, K), bool)
    elif Q == K:
        causal = one.kind == "decoder"
        found, allowed = places_within(columns, causal=causal), np.ones((Q, K), bool)
        if one.rows != one.columns:  # rows are output tokens, columns are tokens read
            found["copying"] = copy_targets(rows, columns)
        allowed = np.tril(allowed) if causal else allowed
    else:
        return
    for role, places in found.items():
        yield role, *shares(weights, places, allowed)


def places_within(tokens: Axis, *, causal: bool) -> dict[str, Places]:
    """Return the columns of each role in self-attention; row r is at column r."""
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
    """Return the columns of each role in cross-attention."""
    special = _specials(columns)
    Q, K = len(rows), len(columns)
    row, column = np.indices((Q, K))
    found = {"copying": copy_targets(rows, columns), "special": np.broadcast_to(special, (Q, K))}
    if columns.grid is None:
        # |(row + ½)/Q − (column + ½)/K| ≤ max(1/Q, 1/K), times 2QK, so that all numbers are integers
        found["diagonal"] = np.abs((2 * row + 1) * K - (2 * column + 1) * Q) <= 2 * max(Q, K)
        found |= {"first": column == 0, "last": column == K - 1}
    if columns.after:
        words = (column >= K - columns.after) & ~special
        found |= {"words": words, "regions" if columns.grid else "frames": (column < K - columns.after) & ~special}
    return found


def copy_targets(rows: Axis, columns: Axis) -> Places:
    """Return the columns with the token that the row outputs."""
    numbers, ending = _numbers([*rows.labels, *columns.labels]), _specials(rows)
    said, labels = numbers[: len(rows)], numbers[len(rows) :]
    return (said[:, None] == labels[None, :]) & ~ending[:, None]


def shares(
    weights: Float[np.ndarray, "H Q K"], places: Places, allowed: Places
) -> tuple[Float[np.ndarray, " H"], float, int]:
    """Return sums over rows of the weight of each head on these columns and of chance, and the number of rows."""
    places = places & allowed
    rows = places.any(axis=1)
    mass = weights[:, places].sum(axis=1)
    chance = (places[rows].sum(axis=1) / allowed[rows].sum(axis=1)).sum()
    return mass, float(chance), int(rows.sum())


def _numbers(labels: Iterable[str]) -> np.ndarray:
    """Return equal numbers for equal tokens."""
    return np.unique([label.strip().casefold() for label in labels], return_inverse=True)[1]


def _specials(axis: Axis) -> np.ndarray:
    return np.array([token.special for token in axis.tokens])
