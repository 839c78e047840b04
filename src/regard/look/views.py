"""Choice of view, weights and comparison for a picture of a record. The renderers only draw."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from regard.errors import CallError, nearest
from regard.look.axis import Axis
from regard.look.card import Figure, card
from regard.look.methods import METHODS
from regard.look.records import Attention, AttentionRecord, Head, Kind, Matrix
from regard.look.records import subject as subject_of

View = Literal["matrix", "lines", "grid", "text", "overlay", "beams"]
VIEWS: tuple[View, ...] = get_args(View)
DECADES = 4  # of a logarithmic scale, below the largest weight
PANELS = 24  # of a filmstrip, at most
GIVEN = "The output was given to the model, which may write another."
TURNED = 1.5  # rows with a larger sum are not distributions: the columns are
EVEN = 5  # full color is at least this multiple of the uniform weight


@dataclass(frozen=True)
class ShownView:
    """One picture of a record."""

    record: AttentionRecord
    view: View = "matrix"
    kind: Kind | None = None
    layer: int | None = None
    head: Head = "mean"
    log: bool = False
    against: AttentionRecord | None = None
    row: int | None = None  # of the overlay: this row only, -1 is the last

    def __post_init__(self) -> None:
        if self.view not in VIEWS:
            raise CallError(f"view={self.view!r} is not known{nearest(self.view, VIEWS)}")
        if self.view == "beams" and not self.record.beams:
            raise CallError("this record has only one hypothesis: look with n_best=3 to see others")
        if self.against is not None and self.view != "matrix":
            raise CallError(f"two records are compared as matrices, not as {self.view!r}")
        if self.view == "overlay" and self.matrix.columns.grid is None and self.matrix.columns.times is None:
            raise CallError(
                "an overlay needs an image or a time axis, and this record has none; "
                "make one with regard.look.axis(grid=..., image=...) or axis(times=..., signal=...)"
            )
        rows = len(self.matrix.rows)
        if self.row is not None and not -rows <= self.row < rows:
            raise CallError(f"row={self.row} is not one of 0 to {rows - 1}")

    @property
    def matrix(self) -> Matrix:
        return self.record.matrix(self.kind, self.layer, self.head)

    @property
    def other(self) -> Matrix | None:
        """Return the same picture of the second record."""
        return None if self.against is None else self.against.matrix(self.kind, self.layer, self.head)

    @property
    def alike(self) -> Matrix | None:
        """Return the second table if it can be subtracted from this one."""
        mine, other = self.matrix, self.other
        if other is not None and mine.weights.shape != other.weights.shape:
            raise CallError(
                f"tables of {_size(mine)} and of {_size(other)} cannot be subtracted from each other; "
                "the second model should be shown the first one's output, and both be merged into words"
            )
        return other

    @property
    def strip(self) -> list[int]:
        """Return the rows of a filmstrip: the requested one, else all, or an even selection if there are too many.

        Of rows that are image regions, only a few are shown, after all other rows.
        """
        rows, most = self.matrix.rows, PANELS if self.matrix.rows.grid is None else PANELS // 2
        if self.row is not None:
            return [self.row % len(rows)]
        if len(rows) <= most:
            return list(range(len(rows)))
        regions = set(rows.upon()) if rows.grid else set(range(len(rows)))
        others = [place for place in range(len(rows)) if place not in regions][: most // 2]
        chosen = np.linspace(0, len(rows) - 1, most - len(others)).round().astype(int).tolist()
        return [*others, *(place for place in chosen if place not in others)]

    @property
    def layers(self) -> list[Attention]:
        return self.record.of_kind(self.kind)

    @property
    def heads(self) -> list[tuple[str, np.ndarray]]:
        """Return the tables with separate colors in the view of lines: all heads of a layer, else the one table."""
        layers = self.layers
        if self.layer is not None:
            layers = [one for one in layers if one.layer == self.layer % (layers[-1].layer + 1)]
        if self.head == "mean" and len(layers) == 1:
            return [(f"head {number}", table) for number, table in enumerate(layers[0].weights)]
        return [(self.matrix.title, self.matrix.weights)]

    @property
    def title(self) -> str:
        return f"{self.record.input} → {self.record.output}" if self.record.output else self.record.input

    @property
    def caption(self) -> str:
        """Return the caption: the weights and the method."""
        subject = self.matrix.title
        if self.view == "grid":
            subject = f"{subject_of(self.layers[0].kind, self.record.method)}, every layer and head, with its entropy"
        elif self.view == "lines" and len(self.heads) > 1:
            subject = f"{subject_of(self.layers[0].kind, self.record.method)}, every head"
            subject += "" if self.layer is None else f" of layer {self.layer}"
        silent = f" Masked: {', '.join(self.record.without)}." if self.record.without else ""
        given = f" {GIVEN}" if self.record.forced else ""
        return f"{subject}. {method_line(self.record.method)}{silent}{given}"

    @property
    def figures(self) -> list[Figure]:
        return card(self.matrix, self.record)


def method_line(method: str) -> str:
    told = METHODS.get(method.partition(" (")[0])
    return f"Method: {method}, {told}." if told else f"Method: {method}."


def top_weight(weights: np.ndarray, keys: int | None = None) -> float:
    """Return the weight of full color: the upper quartile of the row maxima, but at least 5/K (or 1).

    So a few rows with a single large weight do not make all others pale; they get full color as well.

    1/K is the uniform weight of K keys; if the columns sum to one, the mean of all weights replaces it. Weights near
    it are all painted faintly: a picture of nearly uniform attention, stretched to full color, would show a pattern
    where attention is nearly uniform.
    """
    largest = np.sort(np.max(weights, axis=-1), axis=None)
    mean, K = float(np.mean(weights)), weights.shape[-1]
    alike = mean if mean * K > TURNED else 1 / (keys or K)
    return max(float(largest[3 * (largest.size - 1) // 4]), min(1.0, EVEN * alike))


def range_line(values: np.ndarray) -> str:
    """Return the text next to the label of a small picture."""
    return f"largest {values.max():.2g}, even {1 / values.size:.2g}"


def strength(weights: np.ndarray, top: float, log: bool) -> np.ndarray:
    """Return the color strength from 0 to 1: in proportion, or by decades below the largest."""
    share = np.clip(np.asarray(weights, dtype=np.float64) / (top or 1.0), 0.0, 1.0)
    if not log:
        return share
    with np.errstate(divide="ignore"):
        return np.clip(1 + np.log10(share) / DECADES, 0.0, 1.0)


def blocks(weights: np.ndarray, most: int) -> np.ndarray:
    """Reduce a table to at most `most` rows and columns, by the largest value of each block."""
    for axis in (0, 1):
        size = weights.shape[axis]
        starts = np.arange(min(most, size)) * size // min(most, size)
        weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights


def suitable_view(record: AttentionRecord, kind: Kind | None = None, against: AttentionRecord | None = None) -> View:
    """Return the default view: overlay for images, sound and series, else matrix (always for two records)."""
    columns = record.axes[record.of_kind(kind)[0].columns]
    return "matrix" if against or (columns.grid is None and columns.times is None) else "overlay"


def joint_labels(one: Axis, other: Axis) -> list[str]:
    """Return labels for two records on one axis: both labels where they differ."""
    return [a if a == b else f"{a} | {b}" for a, b in zip(one.labels, other.labels, strict=True)]


def _size(matrix: Matrix) -> str:
    return " × ".join(map(str, matrix.weights.shape))
