"""`Said`: what a model said, where that is more than a text. Pictures of attention show it beside the weights.

labels   every label with its probability, the most probable first
values   numbers ahead of a series, each with its time; the widest band of quantiles, and what did happen, if known
marks    places in a text that the model marked, each with a label: an answer in a document, tags of words
drawing  a picture as it appeared, region by region
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
    actual: tuple[float, ...] = ()  # what did happen, as far as it is known
    text: str = ""  # in which places are marked
    marks: tuple[tuple[int, int, str], ...] = ()  # first character, the one after the last, label
    frames: tuple[str, ...] = ()  # the drawing from its beginning to its end, as PNG in base 64
    regions: tuple[int, ...] = ()  # that were there in each frame

    @classmethod
    def of(cls, tree: dict[str, Any]) -> "Said":
        """From JSON, which has lists for tuples."""
        found: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in tree.items()}
        found["marks"] = tuple((start, end, label) for start, end, label in tree["marks"])
        return cls(**found)


@dataclass(frozen=True)
class NextToken:
    """One of the tokens that a decoder found most probable at a step. `piece`: what it would add to the text."""

    text: str
    piece: str
    log_probability: float
