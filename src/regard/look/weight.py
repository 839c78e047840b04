"""The computation of one attention weight, with its numbers.

    e_ij = score(q_i, k_j) + b_ij       a_ij = exp(e_ij) / Σ_j exp(e_ij)       y_i = Σ_heads Σ_j a_ij v_j W_o

The numbers come from a trace of the model (`attention/trace.py`), the equation from the code of the score. `share` is
a_ij v_j W_o · y_i / ‖y_i‖², the contribution of this term to the output. Over all keys and heads, shares sum to one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.attention import Trace
from regard.errors import CallError
from regard.look.attribution import NOTHING, place_tables, transpose_case
from regard.look.axis import visible
from regard.look.case import WHOLE, ExplainTarget, evaluating
from regard.look.methods.inputs import score_tokens
from regard.look.methods.origins import Origin, score_origins
from regard.look.placing import PlacedTable, with_heads
from regard.look.records import KINDS, ORDER, Attention, Kind
from regard.look.value_table import ValueTable

# Find the weight of a model behind a cell of a record.
#
# A job may drop rows and columns, transpose a table or average it (`ExplainTarget.place`). So weights are replaced by
# their numbers, and the same placement is applied: the cell then contains the number of its weight.


class PlacedWeight(NamedTuple):
    """A cell of a record, with the trace of its weight and its position: `query` and `key` of `shown.name`.

    `key_labels`: labels of the keys of this query in the record, by position.
    """

    case: ExplainTarget
    seen: Trace
    shown: Attention
    cell: tuple[int, int, int]  # head, row, column of the shown table
    query: int
    key: int
    key_labels: dict[int, str]


class _Numbered(NamedTuple):
    case: ExplainTarget
    seen: Trace
    shown: Attention
    numbers: np.ndarray  # in a head, from 1, in the order of the model; 0: no weight
    marks: np.ndarray  # random, placed in the same way
    marked: np.ndarray  # the same before placement, by number


def find_weight(
    case: ExplainTarget, row: int, column: int, kind: Kind | None, layer: int | None, head: int | None
) -> PlacedWeight:
    """Find the weight of a cell. By default layer and head with the largest weight of this cell."""
    found = [one for side in (case, *case.beside) for one in _number_rows(side)]
    if not found:
        raise CallError(NOTHING)
    one, cell = _choose_cell(found, row, column, kind, layer, head)
    rows, columns = (one.case.axes[name].labels for name in (one.shown.rows, one.shown.columns))
    numbers, keys = one.numbers.astype(int) - 1, one.seen[one.shown.name].shape[-1]
    number = int(numbers[cell[1:]])
    if number >= 0 and one.marks[cell[1:]] != one.marked[number]:
        raise CallError(
            f"the row {rows[cell[1]]!r} is the mean over all vectors (mean pooling), and a mean has no score: use "
            "kind='encoder' (--kind encoder), if it is shown, for one of the vectors"
        )
    if number < 0:
        raise CallError(f"{rows[cell[1]]!r} cannot look at {columns[cell[2]]!r}: this weight does not exist")
    query, key = divmod(number, keys)
    same = list(zip(*np.nonzero((numbers >= 0) & (numbers // keys == query)), strict=True))
    along_rows = len({int(i) for i, _ in same}) > 1  # a transposed table has one query per column
    labels = {int(numbers[i, j]) % keys: rows[i] if along_rows else columns[j] for i, j in same}
    return PlacedWeight(one.case, one.seen, one.shown, cell, query, key, labels)


def _number_rows(case: ExplainTarget) -> list[_Numbered]:
    with evaluating(case.model), torch.no_grad(), Trace(case.model, scores=True) as seen:
        case.ask([WHOLE])
    try:
        names = [name for name in seen.names if seen.role(name).kind != "gate"]
    except RuntimeError:  # no attention here
        return []
    weights = {name: with_heads(seen[name][case.row].float().cpu().numpy()) for name in names}
    sizes = {name: (1, *one.shape[1:]) for name, one in weights.items()}  # all heads have the same placement
    numbers = {name: np.arange(1.0, math.prod(size) + 1).reshape(size) for name, size in sizes.items()}
    random = np.random.default_rng(0)
    marks = {name: random.random(size, dtype=np.float32) for name, size in sizes.items()}

    def shown(tables: dict[str, np.ndarray]) -> list[Attention]:
        ready = [PlacedTable(name, seen.role(name), table) for name, table in tables.items()]
        return [transpose_case(case, one) for one in place_tables(case, ready)]

    found = zip(shown(weights), shown(numbers), shown(marks), strict=True)
    return [
        _Numbered(case, seen, one, number.weights[0], mark.weights[0], marks[one.name].ravel())
        for one, number, mark in found
    ]


def _choose_cell(
    found: list[_Numbered], row: int, column: int, kind: Kind | None, layer: int | None, head: int | None
) -> tuple[_Numbered, tuple[int, int, int]]:
    kinds: list[Kind] = [one for one in ORDER if any(table.shown.kind == one for table in found)]
    kind = kinds[0] if kind is None else kind
    if kind not in kinds:
        raise CallError(f"kind={kind!r} is not in this record; it has: {', '.join(kinds)}")
    tables = sorted((one for one in found if one.shown.kind == kind), key=lambda one: one.shown.layer)
    layers = [one.shown.layer for one in tables]
    if layer is not None:
        if layer not in layers and not -len(tables) <= layer < 0:
            raise CallError(f"layer={layer} is not one of {', '.join(map(str, layers))} ({kind})")
        tables = [tables[layer] if layer < 0 else tables[layers.index(layer)]]
    heads, rows, columns = tables[0].shown.weights.shape
    for name, value, most in (("head", head, heads), ("row", row, rows), ("column", column, columns)):
        if value is not None and not -most <= value < most:
            raise CallError(f"{name}={value} is not one of 0 to {most - 1}")
    if head is not None and len(tables) > 1:
        raise CallError(f"head={head} needs a layer: give layer=0 to {layers[-1]}")
    row, column = row % rows, column % columns
    of = range(heads) if head is None else [head % heads]
    choices = [(one, (number, row, column)) for one in tables for number in of]
    return max(choices, key=lambda choice: choice[0].shown.weights[choice[1]])


MOST_TERMS = 8
MOST_KEYS = 10
MOST_PARTS = 12


@dataclass(frozen=True)
class Weight:
    """The computation of one attention weight.

    kind, layer, head   the attention; `row` and `column`: the cell of its table, with their labels
    weight              after the softmax; `gate`: the factor of a gated decoder
    equation            of the score, with its numbers; `score` is its result, `bias` the contribution of the position
    query, key          vectors of the score; `terms`: (dimension, number) of the largest contributions to the score
    keys                of the query's row, and their `scores` and `weights` before and after the softmax; the score of
                        a masked key is −∞; `place`: the position of this key
    value_length        ‖v‖, and `added_length`: ‖a v W_o‖, the contribution to the output; `share` of the whole
    parts               parts of query and key with their contributions, which sum to `score` + `bias`
    tokens              the same by parts of the input, if requested
    shared_softmax      each key belongs to the query whose score is highest, and one softmax is over all keys
    """

    kind: Kind
    layer: int
    head: int
    row: int
    column: int
    row_label: str
    column_label: str
    weight: float
    gate: float | None
    equation: str
    score: float
    bias: float | None
    query: np.ndarray
    key: np.ndarray
    terms: tuple[tuple[int, float], ...]
    keys: tuple[str, ...]
    place: int
    scores: np.ndarray
    weights: np.ndarray
    value_length: float
    added_length: float
    share: float
    parts: tuple[Origin, ...]
    tokens: tuple[Origin, ...]
    shared_softmax: bool

    @property
    def title(self) -> str:
        where = f"attention {KINDS[self.kind]}, layer {self.layer}, head {self.head}"
        return f"{self.row_label} ← {self.column_label}: {_number(self.weight)} ({where})"

    def steps(self) -> list[tuple[str, str]]:
        """Return the steps from the score to the output: name and equation."""
        found = [("score", self.equation)]
        if self.bias is not None:
            total = self.score + self.bias
            found.append(("position", f"e = {self.score:.4g} {self.bias:+.4g} = {total:.4g}"))
        found.append(("softmax", self._softmax()))
        if self.gate is not None:
            found.append(("gate", f"times the gate {self.gate:.4f}: {self.gate * self.weight:.4f} is shown"))
        found.append(("value", f"‖v‖ = {self.value_length:.4g}"))
        added = f"‖a v W_o‖ = {self.added_length:.4g} is added"
        found.append(("output", f"{added}, {_percent(self.share)} of the output"))
        return found

    def _softmax(self) -> str:
        total = self.score + (self.bias or 0.0)
        if self.shared_softmax and total < self.scores[self.place]:
            return f"another row scores this key higher ({self.scores[self.place]:.4g}), so a = 0 here"
        if not np.isfinite(self.scores[self.place]):
            return "the mask hides this key from the query, so a = 0"
        if not self.weights.any():
            return "the head is masked, so a = 0"
        top = float(self.scores.max())
        own, every = math.exp(total - top), float(np.exp(self.scores - top).sum())
        most = f"{top:.4g}" if top >= 0 else f"({top:.4g})"
        return f"a = exp(e − {most}) / Σ_j exp(e_j − {most}) = {own:.4g} / {every:.4g} = {_number(own / every)}"

    def largest(self) -> list[int]:
        """Return the keys with the largest weights, including this one, in their order."""
        found = np.argsort(-self.weights, kind="stable")[:MOST_KEYS].tolist()
        return sorted({*found, self.place})

    def as_dict(self) -> dict[str, Any]:
        """Return numbers and texts; masked scores are None."""
        arrays = {name: value.tolist() for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        arrays["scores"] = [score if math.isfinite(score) else None for score in arrays["scores"]]
        for name in ("parts", "tokens"):
            arrays[name] = [part._asdict() | {"name": part.told} for part in getattr(self, name)]
        return vars(self) | arrays | {"title": self.title, "steps": self.steps()}

    def table(self) -> ValueTable:
        """Return the contributions to the score as a table, the largest first, with their sum."""
        rows: list[tuple[str, float]] = []
        for parts, total in ((self.parts, "score"), (self.tokens, "score, by parts of the input")):
            rows += _largest(parts)
            rows += [(total, sum(part.value for part in parts))] if parts else []
        about = " ".join(f"{name}: {text}." for name, text in self.steps())
        return ValueTable(
            np.array([[value] for _, value in rows]).reshape(-1, 1), [name for name, _ in rows], ["adds"],
            f"Contributions to the score of this weight: {self.title}",
            about=f"{about} The rows sum to the score below them.",
        )  # fmt: skip

    def save(self, path: str | Path) -> Path:
        """Save the contributions as .png, .svg, .pdf or .html."""
        return self.table().save(path)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def __str__(self) -> str:
        """Return the steps and the row before and after the softmax, for a terminal."""
        shown = self.largest()
        width = max(len(self.keys[key]) for key in shown)
        terms = ", ".join(f"{number:+.3g} [{place}]" for place, number in self.terms)
        steps = [f"  {name:<9}{text}" for name, text in self.steps()]
        steps.insert(1, f"  {'':<9}the terms that add most, with their dimension: {terms}")
        row = [
            f"{'→' if key == self.place else ' ':>11} {self.keys[key]:<{width}} {_score(self.scores[key]):>9}"
            f"   {self.weights[key]:.4f}"
            for key in shown
        ]
        left = len(self.keys) - len(shown)
        more = [f"{'':>12}and {left} keys with less weight"] if left else []
        head = f"{'':>12}{'key':<{width}} {'score':>9}   weight"
        parts = _table_of_parts("where the score comes from", self.parts) + _table_of_parts(
            "by parts of the input", self.tokens
        )
        return visible("\n".join([self.title, "", *steps, "", head, *row, *more, *parts]))


def _table_of_parts(title: str, parts: Sequence[Origin]) -> list[str]:
    lines = [f"{'':>12}{value:>+9.3f}  {name}" for name, value in _largest(parts)]
    return ["", f"{'':>12}{title}", *lines] if lines else []


def _largest(parts: Sequence[Origin]) -> list[tuple[str, float]]:
    """Return the largest first, and the sum of the others."""
    ordered = sorted(parts, key=lambda part: -abs(part.value))
    shown, rest = ordered[:MOST_PARTS], ordered[MOST_PARTS:]
    others = [(f"{len(rest)} other parts", sum(part.value for part in rest))] if rest else []
    return [*((part.told, part.value) for part in shown), *others]


def _score(score: float) -> str:
    return f"{score:.3f}" if math.isfinite(score) else "masked"


def weight(
    case: ExplainTarget,
    row: int,
    column: int,
    *,
    kind: Kind | None = None,
    layer: int | None = None,
    head: int | None = None,
    parts: bool = True,
    tokens: bool = False,
) -> Weight:
    """Return the computation of one cell of a table. By default layer and head with the largest weight of this cell.

    `parts`: contributions of the parts of query and key; `tokens`: contributions of the input (slow).
    """
    with torch.no_grad(), evaluating(case.model):
        return _explain_parts(find_weight(case, row, column, kind, layer, head), parts, tokens)


def _explain_parts(found: PlacedWeight, parts: bool, tokens: bool) -> Weight:
    case, seen, shown, name = found.case, found.seen, found.shown, found.shown.name
    head, i, j = found.cell
    steps = [weights.shape[-2] for weights in seen.calls(name)]  # a decoder may run step by step
    call = int(np.searchsorted(np.cumsum(steps), found.query, side="right"))
    query, scoring = found.query - sum(steps[:call]), seen.scorings(name)[call]
    weights = seen.calls(name)[call]
    weights = weights if weights.ndim == 4 else weights.unsqueeze(1)
    row = scoring.row(weights, case.row, head, query)
    pair = row.with_key(found.key)
    terms = pair.terms().double().cpu().numpy()
    score = float(terms.sum())
    written = (scoring.score.equation, scoring.score.numbers(pair), f"{score:.4g}")
    added, values = scoring.added(weights, case.row, query)
    own, whole = added[head, found.key].double(), added.double().sum((0, 1))
    after = weights[case.row, head]
    gates = [seen[other][case.row].flatten() for other in seen.names if seen.role(other).kind == "gate"]
    gated = bool(gates) and seen.role(name).kind == "cross"
    place = name, call, head, query, found.key
    return Weight(
        kind=shown.kind, layer=shown.layer, head=head, row=i, column=j,
        row_label=case.axes[shown.rows].labels[i], column_label=case.axes[shown.columns].labels[j],
        weight=float(after[query, found.key]), gate=gates[0][found.query].item() if gated else None,
        equation=" = ".join(part for part in written if part), score=score,
        bias=None if row.bias is None else row.bias[found.key].item(),
        query=pair.query[0].float().cpu().numpy(), key=pair.key[0].float().cpu().numpy(),
        terms=tuple((int(n), float(terms[n])) for n in np.argsort(-np.abs(terms), kind="stable")[:MOST_TERMS]),
        keys=tuple(found.key_labels.get(place, f"({place})") for place in range(len(row.scores))),
        place=found.key, scores=row.scores.double().cpu().numpy(),
        weights=(after.sum(0) if scoring.together else after[query]).double().cpu().numpy(),
        value_length=float(values[head, found.key].norm()), added_length=float(own.norm()),
        share=float(own @ whole / (whole @ whole).clamp(min=1e-30)),
        parts=tuple(score_origins(case, *place)) if parts else (),
        tokens=tuple(score_tokens(case, *place)) if tokens else (),
        shared_softmax=scoring.together,
    )  # fmt: skip


def _number(weight: float) -> str:
    """Format a weight; small nonzero weights are not shown as zero."""
    return f"{weight:.4f}" if weight >= 5e-5 or weight == 0 else f"{weight:.2g}"


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("-0.0%", "0.0%")
