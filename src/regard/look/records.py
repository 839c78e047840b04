"""`AttentionRecord`: the attention weights of one prediction, with all data for pictures and without the model.

A record can be drawn in the terminal, as PNG, SVG, PDF or HTML, and in a notebook. It can be saved (one .npz with JSON
inside, no pickle) and loaded anywhere. `record` makes one from the arrays of any other library.

    H heads   Q rows (queries)   K columns (keys)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from regard.errors import CallError
from regard.look.axis import Axis, Group
from regard.metrics.alignment import Gold, merge_subwords

if TYPE_CHECKING:
    from regard.look.card import Figure

SaidKind = Literal["labels", "values", "marks", "drawing"]


@dataclass(frozen=True)
class OutputView:
    """An output that is more than a text. Pictures of attention show it with the weights.

    labels   every label with its probability, the most probable first
    values   forecast numbers with their times; the widest band of quantiles, and the actual values, if known
    marks    marked spans of a text, each with a label: an answer in a document, tags of words
    drawing  a generated picture, region by region
    """

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
    def of(cls, tree: dict[str, Any]) -> "OutputView":
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


Kind = Literal["cross", "encoder", "decoder"]  # over the source; bidirectional self-attention; causal self-attention
KINDS: dict[Kind, str] = {
    "cross": "over the source",
    "encoder": "of the encoder over the source",
    "decoder": "of the decoder over what it has written",
}
ORDER: tuple[Kind, ...] = tuple(KINDS)  # order in a record; by default the first available is drawn
Head = int | Literal["mean", "max"]
#: Titles of tables by methods that explain the whole model, not its attention.
ASKED = {
    "leave-one-out": "Loss without each part",
    "input-gradient": "Input × gradient of each part",
    "integrated-gradients": "Contribution of each part, by integrated gradients",
    "attnlrp": "Contribution of each part, by AttnLRP",
}


def subject(kind: Kind, method: str) -> str:
    """Return the heading of a table."""
    asked = next((told for name, told in ASKED.items() if method.startswith(name)), None)
    return f"Attention {KINDS[kind]}" if asked is None else asked


@dataclass(frozen=True)
class Attention:
    """The weights of one attention: heads × rows × columns. `rows` and `columns` name axes of the record.

    figures   reliability figures of the method; the record keeps them as evidence
    """

    name: str
    kind: Kind
    layer: int
    weights: np.ndarray
    rows: str
    columns: str
    figures: "tuple[Figure, ...]" = ()


@dataclass(frozen=True)
class Matrix:
    """One table to draw: rows × columns, with its title and method."""

    weights: np.ndarray
    rows: Axis
    columns: Axis
    title: str
    method: str
    kind: Kind


@dataclass(frozen=True, repr=False)
class AttentionRecord:
    attentions: tuple[Attention, ...]
    axes: Mapping[str, Axis]
    method: str = "raw"
    model: str = ""
    input: str = ""
    output: str = ""
    score: float | None = None  # ranking score of hypotheses
    scores: tuple[float, ...] = ()  # log-probability of each output token
    gold: Gold | None = None  # links (source word, target word)
    beams: "tuple[AttentionRecord, ...]" = ()  # the other hypotheses of the search, best first
    evidence: "tuple[Figure, ...]" = ()  # reliability figures that need the model
    forced: bool = False  # the output was given, not predicted
    without: tuple[str, ...] = ()  # masked heads, such as "cross.2.3"
    next_tokens: tuple[tuple[NextToken, ...], ...] = ()  # most probable tokens at each decoding step
    said: OutputView | None = None  # structured output, if it is more than the text `output`
    positional: Mapping[str, float] = field(
        default_factory=dict
    )  # by head, such as "cross.2.3": see methods/positional.py

    def __post_init__(self) -> None:
        if not self.attentions:
            raise CallError("a record needs at least one attention")
        for attention in self.attentions:
            _require_fit(attention, self.axes)
        sides = [self.axes[name].count_words() for name in ("source", "target") if name in self.axes]
        if self.gold is not None and len(sides) == 2 and all(sides):
            self.gold.require_inside(*sides)

    def __repr__(self) -> str:
        """Return one line, without the weights."""
        sizes = [
            f"{kind}: {_count(layers)} of {' × '.join(map(str, layers[0].weights.shape[1:]))}"
            for kind in self.kinds
            if (layers := self.of_kind(kind))
        ]
        said = f"{self.input!r} → {self.output!r}" if self.output else repr(self.input)
        return f"AttentionRecord({said}, {', '.join(sizes)}, method={self.method!r})"

    def _repr_mimebundle_(self, **options: Any) -> Mapping[str, str]:
        """Show the picture in a notebook."""
        from regard.look.render import widget

        return widget(self)._repr_mimebundle_(**options)

    # --------------------------------------------------------------------------------------------------- what is there
    @property
    def kinds(self) -> list[Kind]:
        return list(dict.fromkeys(attention.kind for attention in self.attentions))

    def of_kind(self, kind: Kind | None = None) -> list[Attention]:
        """Return the attentions of one kind, layer by layer; by default of the first kind."""
        kind = kind or self.kinds[0]
        found = [attention for attention in self.attentions if attention.kind == kind]
        if not found:
            raise CallError(f"kind={kind!r} is not in this record; it has: {', '.join(self.kinds)}")
        return sorted(found, key=lambda attention: attention.layer)

    def matrix(self, kind: Kind | None = None, layer: int | None = None, head: Head = "mean") -> Matrix:
        """Return one table: of a head, or the mean or maximum over heads; of one layer, or of all."""
        layers = self.of_kind(kind)
        where = subject(layers[0].kind, self.method)
        if layer is not None:
            layers = [_layer(layers, layer)]
            where += f", layer {layers[0].layer}"
        heads = np.concatenate([attention.weights for attention in layers])
        if head == "mean" or head == "max":
            weights = heads.mean(axis=0) if head == "mean" else heads.max(axis=0)
            if len(heads) > 1:
                where += f", {'mean' if head == 'mean' else 'largest'} of {_count(layers)}"
        else:
            if layer is None and len(layers) > 1:
                raise CallError(f"head={head} needs a layer: give layer=0 to {layers[-1].layer}")
            if not isinstance(head, int) or not -len(heads) <= head < len(heads):
                raise CallError(f"head={head} is not one of 0 to {len(heads) - 1}, mean or max")
            weights = heads[head]
            where += f", head {head % len(heads)}"
        rows, columns = self.axes[layers[0].rows], self.axes[layers[0].columns]
        return Matrix(weights, rows, columns, where, self.method, layers[0].kind)

    # ------------------------------------------------------------------------------------------------- another reading
    def words(self) -> "AttentionRecord":
        """Merge subwords into words: sum over columns, mean over rows."""
        return self._merge_tables(Axis.words)

    def characters(self) -> "AttentionRecord":
        """Merge bytes into characters."""
        return self._merge_tables(Axis.characters)

    def without_specials(self) -> "AttentionRecord":
        """Drop begin, end and padding, and hypotheses without other tokens.

        Weights are not renormalized: rows may then sum to less than one."""
        kept = {name: axis.real() for name, axis in self.axes.items()}
        for attention in self.attentions:
            if not kept[attention.rows] or not kept[attention.columns]:
                raise CallError(f"{attention.name}: all tokens are special, so nothing is left without them")
        return replace(
            self,
            attentions=tuple(
                replace(a, weights=a.weights[:, kept[a.rows]][:, :, kept[a.columns]]) for a in self.attentions
            ),
            axes={name: axis.taken(kept[name]) for name, axis in self.axes.items()},
            scores=tuple(self.scores[place] for place in kept["target"]) if self.scores else (),
            next_tokens=tuple(self.next_tokens[place] for place in kept["target"]) if self.next_tokens else (),
            beams=tuple(beam.without_specials() for beam in self.beams if beam.has_text()),
        )

    def has_text(self) -> bool:
        """Whether rows and columns have tokens other than special ones (an empty hypothesis has none)."""
        return all(self.axes[a.rows].real() and self.axes[a.columns].real() for a in self.attentions)

    def _merge_tables(self, groups_of: Callable[[Axis], list[Group]]) -> "AttentionRecord":
        groups = {name: groups_of(axis) for name, axis in self.axes.items()}
        return replace(
            self,
            attentions=tuple(
                replace(a, weights=merge_subwords(a.weights, groups[a.columns], groups[a.rows]))
                for a in self.attentions
            ),
            axes={name: axis.merge_pieces(groups[name]) for name, axis in self.axes.items()},
            # The probability of a word is the product over its pieces.
            scores=tuple(sum(self.scores[slice(*group)]) for group in groups["target"]) if self.scores else (),
            next_tokens=tuple(self.next_tokens[start] for start, _ in groups["target"]) if self.next_tokens else (),
            beams=tuple(beam._merge_tables(groups_of) for beam in self.beams),
        )

    # ------------------------------------------------------------------------------------------------------- the files
    def save(self, path: str | Path) -> Path:
        """Save a picture (.png, .svg, .pdf, .html) or the record (.npz); `regard.look.save` has more options."""
        from regard.look.render import save

        return save(self, path)


def _layer(layers: Sequence[Attention], number: int) -> Attention:
    numbers = [attention.layer for attention in layers]
    if -len(layers) <= number < 0:
        return layers[number]
    if number not in numbers:
        raise CallError(f"layer={number} is not one of {', '.join(map(str, numbers))} ({layers[0].kind})")
    return layers[numbers.index(number)]


def _count(layers: Sequence[Attention]) -> str:
    heads = [len(attention.weights) for attention in layers]
    if len(layers) == 1:
        return f"{heads[0]} heads"
    return f"{len(layers)} layers" if sum(heads) == len(layers) else f"{sum(heads)} heads in {len(layers)} layers"


def _require_fit(attention: Attention, axes: Mapping[str, Axis]) -> None:
    """Raise CallError unless shapes match the tokens and all weights are finite and not negative."""
    name, weights = attention.name, attention.weights
    for side in (attention.rows, attention.columns):
        if side not in axes:
            raise CallError(f"{name}: no tokens for its {side!r} axis; the axes are: {', '.join(axes)}")
    rows, columns = len(axes[attention.rows]), len(axes[attention.columns])
    if weights.ndim != 3 or weights.shape[1:] != (rows, columns):
        raise CallError(
            f"{name}: weights of shape {weights.shape} do not fit {rows} rows and {columns} columns; "
            f"they must be heads × {rows} × {columns}"
        )
    if not weights.size:
        raise CallError(f"{name}: weights of shape {weights.shape} have nothing to show")
    if not np.isfinite(weights).all():
        head, row, column = (int(where[0]) for where in np.nonzero(~np.isfinite(weights)))
        raise CallError(
            f"{name}: the weight of head {head}, row {row}, column {column} is {weights[head, row, column]}"
        )
    if weights.min() < -1e-6:
        raise CallError(
            f"{name}: some weights are below zero (the least is {weights.min():.4g}); of signed attributions, "
            "take the positive part or the absolute value first, and name it in `method`"
        )


# Hypotheses of a beam search as a tree of their shared prefixes.


@dataclass
class Node:
    """Tokens up to the next fork, their log-probability, and the hypotheses that contain them (0 is the best)."""

    tokens: list[str]
    log_probability: float
    hypotheses: list[int]
    children: "list[Node]" = field(default_factory=list)


def beam_tree(record: AttentionRecord) -> list[Node]:
    """Return the root nodes: one if all hypotheses start with the same token."""
    hypotheses = [record, *record.beams]
    sequences = [
        list(zip(one.axes["target"].labels, one.scores or [0.0] * len(one.axes["target"]), strict=True))
        for one in hypotheses
    ]
    return _grow(sequences, list(range(len(hypotheses))), 0)


def _grow(sequences: Sequence[Sequence[tuple[str, float]]], numbers: list[int], place: int) -> list[Node]:
    forks: dict[str, list[int]] = {}
    for number in numbers:
        if place < len(sequences[number]):
            forks.setdefault(sequences[number][place][0], []).append(number)
    nodes = []
    for group in forks.values():
        stop = place + 1
        longest = min(len(sequences[number]) for number in group)
        while stop < longest and len({sequences[number][stop][0] for number in group}) == 1:
            stop += 1
        part = sequences[group[0]][place:stop]
        children = _grow(sequences, group, stop)
        nodes.append(Node([label for label, _ in part], sum(score for _, score in part), group, children))
    return nodes
