"""`Said`: an output that is more than a text. Pictures of attention show it with the weights.

labels   every label with its probability, the most probable first
values   forecast numbers with their times; the widest band of quantiles, and the actual values, if known
marks    marked spans of a text, each with a label: an answer in a document, tags of words
drawing  a generated picture, region by region
"""

from dataclasses import dataclass
from typing import Any, Literal

SaidKind = Literal["labels", "values", "marks", "drawing"]


@dataclass(frozen=True)
class Said:
    kind: SaidKind
    names: tuple[str, ...] = ()  # the labels, or the times of the values
    values: tuple[float, ...] = ()  # probabilities, or the values
    low: tuple[float, ...] = ()  # of the band
    high: tuple[float, ...] = ()
    band: str = ""  # such as "0.1 to 0.9"
    actual: tuple[float, ...] = ()  # actual values, as far as known
    text: str = ""  # the text with marked spans
    marks: tuple[tuple[int, int, str], ...] = ()  # first character, the one after the last, label
    frames: tuple[str, ...] = ()  # successive states of the drawing, as PNG in base 64
    regions: tuple[int, ...] = ()  # number of finished regions in each frame

    @classmethod
    def of(cls, tree: dict[str, Any]) -> "Said":
        """Read from JSON, which has lists for tuples."""
        found: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in tree.items()}
        found["marks"] = tuple((start, end, label) for start, end, label in tree["marks"])
        return cls(**found)


@dataclass(frozen=True)
class NextToken:
    """One of the most probable tokens at a decoding step. `piece` is the text that it adds."""

    text: str
    piece: str
    log_probability: float
