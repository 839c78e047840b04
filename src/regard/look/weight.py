"""The computation of one attention weight, with its numbers.

    e_ij = score(q_i, k_j) + b_ij       a_ij = exp(e_ij) / Σ_j exp(e_ij)       y_i = Σ_heads Σ_j a_ij v_j W_o

The numbers come from a trace of the model (`attention/scoring.py`), the equation from the code of the score. `share` is
a_ij v_j W_o · y_i / ‖y_i‖², the contribution of this term to the output. Over all keys and heads, shares sum to one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.look.asking import evaluating
from regard.look.case import Case
from regard.look.methods.origins import Origin, score_origins
from regard.look.methods.score_tokens import score_tokens
from regard.look.records import KINDS, Kind
from regard.look.value_table import ValueTable
from regard.look.visible import visible
from regard.look.weight_place import PlacedWeight, find_weight

MOST_TERMS = 8
MOST_KEYS = 10
MOST_PARTS = 12


@dataclass(frozen=True)
class Weight:
    """
    kind, layer, head   which attention; `row` and `column`: which cell of its table, with their labels
    weight              after the softmax; `gate`: how much of what is seen a model lets through, if it can look away
    equation            of the score, with its numbers; `score` is its result, `bias` what the position adds to it
    query, key          as the score compares them; `terms`: the (dimension, number)s that add most to the score
    keys                of the query's row, and their `scores` and `weights` before and after the softmax; a score is −∞
                        where the query may not look; `place`: that of this key
    value_length        ‖v‖, and `added_length`: ‖a v W_o‖, what this weight adds to the output; `share` of the whole
    parts               what query and key are made of, each with what it adds: their sum is `score` and `bias` together
    tokens              the same by parts of the input, where it was asked for
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
            found.append(("gate", f"lets {self.gate:.4f} of it through: {self.gate * self.weight:.4f} is shown"))
        found.append(("value", f"‖v‖ = {self.value_length:.4g}"))
        added = f"‖a v W_o‖ = {self.added_length:.4g} is added to it"
        found.append(("output", f"{added}, {_percent(self.share)} of the way to the whole"))
        return found

    def _softmax(self) -> str:
        total = self.score + (self.bias or 0.0)
        if self.shared_softmax and total < self.scores[self.place]:
            return f"another row scores this key higher ({self.scores[self.place]:.4g}), so that a = 0 here"
        if not np.isfinite(self.scores[self.place]):
            return "the mask hides this key from the query, so that a = 0"
        if not self.weights.any():
            return "the head is left out, so that a = 0"
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
            f"Where the score of this weight comes from: {self.title}",
            about=f"{about} The rows add up to the score below them.",
        )  # fmt: skip

    def save(self, path: str | Path) -> Path:
        """As .png, .svg, .pdf or .html."""
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
        parts = _told("where the score comes from", self.parts) + _told("by parts of the input", self.tokens)
        return visible("\n".join([self.title, "", *steps, "", head, *row, *more, *parts]))


def _told(title: str, parts: Sequence[Origin]) -> list[str]:
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
    case: Case,
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
        return _explained(find_weight(case, row, column, kind, layer, head), parts, tokens)


def _explained(found: PlacedWeight, parts: bool, tokens: bool) -> Weight:
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
