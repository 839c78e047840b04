"""Reliability figures of an attention table, compared with uniform and shuffled weights.

    entropy          H(a) = −Σ_i a_i log₂ a_i, mean over rows, in bits: 0 for one token, log₂ K for uniform weights
    on specials      mass on begin, end and padding: a frequent target of heads with nothing to look for
                     (Clark et al. 2019, section 3.2, arXiv:1906.04341)
    alignment error  against gold word links (see `regard.metrics.alignment`), by the better of two readings

Baselines: *uniform* weights are equal for all columns; *shuffled* weights are the rows of the table in a wrong, seeded
order: right columns for the wrong rows. Rows are scaled to sum to one first.

Comprehensiveness and sufficiency need the model; see `regard.look.methods.inputs`. Attention that fails
all of them may still be useful to the model, but is no explanation (Jain and Wallace 2019, arXiv:1902.10186;
Wiegreffe and Pinter 2019, arXiv:1908.04626).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from regard.look.records import AttentionRecord, Matrix
from regard.metrics.alignment import Gold, Link, alignment_score, argmax_links, score_of_counts, two_way_links

COLUMNS = ("here", "uniform", "shuffled")


@dataclass(frozen=True)
class Figure:
    """One line of the card. `better` is "low", "high" or ""."""

    name: str
    value: float
    uniform: float | None = None
    shuffled: float | None = None
    better: str = ""
    about: str = ""  # the measured weights, if not those of the picture
    unit: str = ""


def columns(figures: Sequence[Figure]) -> list[str]:
    """Return the non-empty columns of a card: a table with one row has no shuffled baseline."""
    return [name for name in COLUMNS if any(column(figure, name) is not None for figure in figures)]


def column(figure: Figure, name: str) -> float | None:
    return {"here": figure.value, "uniform": figure.uniform, "shuffled": figure.shuffled}[name]


def card(matrix: Matrix, record: AttentionRecord) -> list[Figure]:
    """Return all figures of this table, including the evidence measured with the model."""
    weights = normalize_rows(matrix.weights)
    shuffled = weights[wrong_order(len(weights))]
    flat = np.full_like(weights, 1 / weights.shape[1])
    figures = [Figure("entropy (bits)", entropy(weights), entropy(flat))]
    special = np.array([token.special for token in matrix.columns.tokens])
    if special.any():
        mass, even = (float(table[:, special].sum(axis=1).mean()) for table in (weights, flat))
        figures.append(Figure("mass on special tokens", mass, even))
    if record.gold is not None and is_word_table(matrix):
        own, other = (alignment_error(matrix, table, record.gold) for table in (weights, shuffled))
        figures.append(Figure("alignment error", own, _uniform_error(matrix, record.gold), other, better="low"))
    return [*figures, *record.evidence]


def sentence(figures: Sequence[Figure]) -> str:
    """Summarize the figures in one or two sentences."""
    found = {figure.name: figure for figure in figures}
    if (lost := found.get("comprehensiveness")) is not None:
        other, name = (lost.uniform, "random") if lost.shuffled is None else (lost.shuffled, "shuffled")
        other = 0.0 if other is None else other
        unit = " nats less sure" if lost.unit == "nats" else f" {lost.unit}off".replace("  ", " ")
        matter = lost.value > max(1.25 * other, other + 0.05)
        return (
            f"Without the top parts of the input, the model is {lost.value:.1f}{unit}; with {name} weights, {other:.1f}"
            f": {'these weights matter here.' if matter else 'these weights explain little here.'}"
        )
    if (spread := found.get("entropy (bits)")) is None or spread.uniform is None:
        return ""
    places, even = 2**spread.value, 2**spread.uniform
    told = f"A row looks at about {places:.1f} of {even:.0f} places"
    if (special := found.get("mass on special tokens")) is not None and special.value > 0.005:
        told += f", with {special.value:.0%} of its weight on special tokens"
    sharp = "a sharp focus." if places < 0.4 * even else "a moderate focus."
    rest = "nearly uniform." if places > 0.8 * even else sharp
    return f"{told}: {rest}"


def entropy(weights: Float[np.ndarray, "*b Q K"]) -> float:
    """Return the mean entropy over rows, in bits. Rows of zeros count as 0."""
    safe = np.where(weights > 0, weights, 1.0)
    return float(-(safe * np.log2(safe)).sum(axis=-1).mean())


def normalize_rows(weights: Float[np.ndarray, "*b Q K"]) -> Float[np.ndarray, "*b Q K"]:
    """Scale rows to sum to one; rows of zeros stay."""
    weights = np.clip(np.asarray(weights, dtype=np.float64), 0, None)
    total = weights.sum(axis=-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def wrong_order(rows: int) -> np.ndarray:
    """Return a seeded order in which no row keeps its position (given two or more rows)."""
    order = np.random.default_rng(0).permutation(rows)
    turned = np.empty_like(order)
    turned[order] = np.roll(order, 1)  # one cycle through all rows
    return turned


def is_word_table(matrix: Matrix) -> bool:
    """Whether gold word links apply to this table."""
    sides = (matrix.rows, matrix.columns)
    known = all(token.word is not None or token.special for side in sides for token in side.tokens)
    return matrix.kind == "cross" and known and all(side.real() for side in sides)


def alignment_error(matrix: Matrix, weights: np.ndarray, gold: Gold) -> float:
    """Return the lower error of two readings: argmax, and argmax completed so that each source word has a link."""
    rows, columns = matrix.rows.real(), matrix.columns.real()
    table = weights[np.ix_(rows, columns)]
    return min(
        alignment_score([_words(links, matrix, rows, columns)], [gold]).aer
        for links in (argmax_links(table), two_way_links(table))
    )


def _uniform_error(matrix: Matrix, gold: Gold) -> float:
    """Return the expected error of one random link per target word: it is right with probability 1 / source words."""
    targets, sources = (len({t.word for t in axis.tokens if not t.special}) for axis in (matrix.rows, matrix.columns))
    return score_of_counts(len(gold.sure) / sources, len(gold.possible) / sources, targets, len(gold.sure)).aer


def _words(links: set[Link], matrix: Matrix, rows: list[int], columns: list[int]) -> set[Link]:
    """Convert links between tokens to links between words."""
    pairs = ((matrix.columns.tokens[columns[s]].word, matrix.rows.tokens[rows[t]].word) for s, t in links)
    return {(source, target) for source, target in pairs if source is not None and target is not None}
