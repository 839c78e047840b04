"""Compute the tables of a record from a `ExplainTarget`, by any method. The same for every job.

    raw              the weights, as the model computed them
    rollout          multiplied through all layers down to the input                  methods/rollout.py
    norm             times the norm of the transformed values                         methods/norms.py
    gradient         times their gradients                                            methods/gradients.py
    input-gradient   gradient with respect to the input vectors, times these vectors  methods/gradients.py
    integrated-gradients   the same, averaged along the path from zeros to the input  methods/integrated.py
    attnlrp          relevance, by a rule for each operation                          methods/attnlrp.py
    leave-one-out    loss of score when each part of the input is masked              methods/erasure.py

The output is forced through the model, so recording does not change decoding and the weights are those of decoding.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from regard.attention import Trace
from regard.attention.score import Role
from regard.errors import CallError, nearest
from regard.look import placing
from regard.look.card import Figure, normalize_rows
from regard.look.case import (
    WHOLE,
    Contributions,
    ExplainTarget,
    at_steps,
    evaluating,
    some_steps,
    step_scorer,
    to_numpy,
)
from regard.look.methods import ABOUT_OUTPUT, METHODS, SPEAKING_FOR
from regard.look.methods.attnlrp import attnlrp
from regard.look.methods.inputs import (
    decoder_rollout,
    faithfulness,
    gradient_times_attention,
    input_times_gradient,
    integrated_gradients,
    leave_one_out,
    norm_weighted,
    rollout,
)
from regard.look.placing import PlacedTable, apply_gate, by_role, with_heads
from regard.look.records import ORDER, Attention, AttentionRecord, Head

# Tables of a case by methods on attention weights: raw, rollout, norm, gradient.
#
# Rollout gives one table for each kind of attention, the others one for each attention.

NO_END = 1 << 31
NOTHING_FOR = (
    "method={method!r} shows only positive contributions to an output, and here are none; the method input-gradient "
    "shows the size of all, and --explain inputs (run.explain) their sign, too"
)
NOTHING = (
    "this model has no attention, so there is nothing to look at; the methods input-gradient and leave-one-out work "
    "with any model"
)


def raw_tables(case: ExplainTarget) -> list[PlacedTable]:
    """Return the weights of every attention, as the model computed them."""
    with torch.no_grad(), Trace(case.model) as seen:
        case.ask([WHOLE])
    return _tables(case, seen, lambda name: seen[name])


def _tables(case: ExplainTarget, trace: Trace, weights: Callable[[str], Tensor]) -> list[PlacedTable]:
    try:
        names = trace.names
    except RuntimeError:
        raise CallError(NOTHING) from None
    found = [PlacedTable(name, trace.role(name), with_heads(to_numpy(weights(name)[case.row]))) for name in names]
    return apply_gate(found)


def rolled_out_tables(tables: Sequence[PlacedTable]) -> list[PlacedTable]:
    kinds: dict[str, list[np.ndarray]] = {"encoder": [], "decoder": [], "cross": [], "pooling": []}
    for table in tables:
        kinds[table.role.kind].append(table.weights)
    encoder, decoder, cross, pooling = kinds.values()
    if any(not table.role.followed for table in tables):
        raise CallError(
            "method='rollout' multiplies attention over layers, so it needs a Vision Transformer; in a CNN, "
            "convolutions mix neighbors between layers: use method='raw', which shows each layer"
        )
    if len({weights.shape[-1] for weights in encoder}) > 1:
        raise CallError("method='rollout' needs layers of one size, and these layers have different grids")
    through = rollout(encoder) if encoder else None
    found: list[PlacedTable] = []
    if decoder and cross:
        width = cross[0].shape[-1]
        mixed = np.eye(width) if through is None or len(through) < width else through[-width:, -width:]
        written, source = decoder_rollout(decoder, cross, mixed)
        found = [_rollout_tables("cross", source), _rollout_tables("decoder", written)]
    elif decoder:
        found = [_rollout_tables("decoder", rollout(decoder))]
    elif pooling and through is not None:
        found = [
            _rollout_tables("pooling", pooling[-1][0] @ through[-pooling[-1].shape[-1] :])
        ]  # a class token is not pooled
    elif cross or through is None:
        raise CallError(
            "method='rollout' multiplies attention over layers, so it needs a Transformer; here attention over "
            "the input is one step: use method='raw'"
        )
    return [*found, *([] if through is None else [_rollout_tables("encoder", through)])]


def _rollout_tables(kind: str, table: np.ndarray) -> PlacedTable:
    return PlacedTable(f"rollout.{kind}", Role(kind), table[None])  # pyright: ignore[reportArgumentType]


def norm_tables(case: ExplainTarget) -> list[PlacedTable]:
    with torch.no_grad(), Trace(case.model, values=True) as seen:
        case.ask([WHOLE])

    def weighted(table: PlacedTable) -> PlacedTable:
        value, out = seen.values(table.name)
        value = with_heads(to_numpy(value[case.row]))
        value = value.repeat(len(table.weights) // len(value), axis=0)  # heads may share keys and values
        return table._replace(weights=norm_weighted(table.weights, value, None if out is None else to_numpy(out)))

    return [weighted(table) for table in _tables(case, seen, lambda name: seen[name])]


def gradient_tables(case: ExplainTarget) -> list[PlacedTable]:
    raw = raw_tables(case)
    felt = weight_gradients(case, raw)
    return [
        table._replace(weights=gradient_times_attention(table.weights, felt[table.name], both_ways=case.number))
        for table in raw
    ]


def weight_gradients(case: ExplainTarget, raw: Sequence[PlacedTable]) -> dict[str, np.ndarray]:
    """Return H Q K for each attention: in decoders, row t has the gradient of step t; in encoders, of all steps."""
    felt: dict[str, np.ndarray] = {table.name: np.zeros_like(table.weights, np.float64) for table in raw}
    for steps in some_steps(case):
        with Trace(case.model, gradients=True) as seen:
            total = at_steps(case, steps)
        for name, gradient in seen.gradients(total).items():
            if name not in felt:
                continue
            rows = gradient[case.row :: case.each]  # one for each step
            own = case.places if seen.role(name).kind in ("encoder", "pooling") else range(case.offset, NO_END)
            if not case.by_step or not own:  # queries without an output step
                felt[name] += with_heads(to_numpy(rows.sum(0)))
            else:
                for row, step in zip(rows, steps.tolist(), strict=True):
                    felt[name][:, own[step]] += with_heads(to_numpy(row))[:, own[step]]
    return felt


# Attribution methods for any model, with or without attention: contribution of each input part to the output.


def input_gradient(case: ExplainTarget) -> Attention:
    """Return the absolute value of input × gradient; the sign is lost."""
    return _whole_table(case, "input-gradient", normalize_rows(np.abs(input_times_gradient(case).parts)))


def by_integrated_gradients(case: ExplainTarget) -> Attention:
    return _speaking_for(case, "integrated-gradients", integrated_gradients(case))


def by_relevance(case: ExplainTarget) -> Attention:
    return _speaking_for(case, "attnlrp", attnlrp(case))


def _speaking_for(case: ExplainTarget, method: str, found: Contributions) -> Attention:
    """Return the positive part; for numeric outputs the absolute value."""
    weights = normalize_rows(np.abs(found.parts) if case.number else np.maximum(found.parts, 0.0))
    return _whole_table(case, method, weights, found.figures)


def without_each(case: ExplainTarget) -> Attention:
    if not case.parts:
        raise CallError("method='leave-one-out' needs input parts that can be masked, and this input has none")
    with torch.no_grad():
        weights = leave_one_out(len(case.parts), lambda without: to_numpy(case.ask(without)), both_ways=case.number)
    return _whole_table(case, "leave-one-out", weights)


def _whole_table(case: ExplainTarget, method: str, weights: np.ndarray, figures: tuple[Figure, ...] = ()) -> Attention:
    """Return the single table of a method on the whole model, with zeros for tokens that cannot be masked."""
    table = np.zeros((len(weights), len(case.axes[case.columns])))
    table[:, list(case.parts)] = weights
    kind = "decoder" if case.columns == "read" else case.kind
    return Attention(method, kind, 0, table[None], case.rows, case.columns, figures)


def attentions(case: ExplainTarget, method: str = "raw") -> tuple[Attention, ...]:
    """Return the tables of a record, cross-attention first. A case with several inputs gives the tables of each."""
    if method not in METHODS:
        raise CallError(f"method={method!r} is not known{nearest(method, METHODS)}")
    found: list[Attention] = []
    problems: list[CallError] = []
    for side in (case, *case.beside):
        try:
            found += _by_method(side, method)
        except CallError as problem:
            problems.append(problem)
    if not found:
        raise problems[0]
    ready = (replace(one, weights=np.ascontiguousarray(one.weights, np.float32)) for one in found)
    return tuple(sorted(ready, key=lambda one: ORDER.index(one.kind)))


def _by_method(case: ExplainTarget, method: str) -> list[Attention]:
    ways: dict[str, Callable[[], list[Attention]]] = {
        "raw": lambda: place_tables(case, raw_tables(case)),
        "rollout": lambda: place_tables(case, rolled_out_tables(raw_tables(case))),
        "norm": lambda: place_tables(case, norm_tables(case)),
        "gradient": lambda: place_tables(case, gradient_tables(case)),
        "input-gradient": lambda: [input_gradient(case)],
        "integrated-gradients": lambda: [by_integrated_gradients(case)],
        "attnlrp": lambda: [by_relevance(case)],
        "leave-one-out": lambda: [without_each(case)],
    }
    with evaluating(case.model):
        found = [transpose_case(case, one) for one in ways[method]()]
    shown = [one for one in found if one.rows == case.rows] or found  # rows of a reader are words, not output steps
    if method in SPEAKING_FOR and not any(one.weights.any() for one in shown):
        raise CallError(NOTHING_FOR.format(method=method))
    return found


def method_shown(case: ExplainTarget, method: str, found: Sequence[Attention]) -> str:
    """Return the method name for captions, with gating and with the rows that have no weights."""
    speaking = method in SPEAKING_FOR
    gated = any(getattr(module, "role", None) == Role("gate") for module in case.model.modules())
    if gated and (method == "gradient" or method not in ABOUT_OUTPUT):
        method = f"{method}, times the gate"
    rows = [one.weights.any(axis=(0, 2)) for one in found if one.kind == "cross" and one.rows == case.rows]
    silent = ~np.any(rows, axis=0) if rows and speaking else np.zeros(0, bool)
    labels = [repr(case.axes[case.rows].labels[row]) for row in np.flatnonzero(silent)]
    shown = {axis for one in found for axis in (one.rows, one.columns)}
    notes = [f"no positive contribution to {', '.join(labels)}"] if labels else []
    notes += [f"none by the {side.columns}" for side in (case, *case.beside) if speaking and side.columns not in shown]
    return f"{method} ({'; '.join(notes)})" if notes else method


def with_evidence(
    record: AttentionRecord, case: ExplainTarget, scores: Sequence[float], layer: int | None, head: Head
) -> AttentionRecord:
    """Return the record with comprehensiveness and sufficiency of its attention over the input.

    `scores` are the scores of the steps on the full input. The record is unchanged unless its table is output steps ×
    input parts.
    """
    if "cross" not in record.kinds or not case.parts:
        return record
    matrix = record.matrix("cross", layer, head)
    one = transpose_case(case, replace(record.of_kind("cross")[0], weights=matrix.weights[None]))
    if (one.rows, one.columns) != (case.rows, case.columns):
        return record
    with evaluating(case.model), torch.no_grad():
        weights = one.weights[0][:, list(case.parts)]
        figures = faithfulness(weights, np.array(scores), step_scorer(case), matrix.title, both_ways=case.number)
    if len(weights) == 1:  # a single row cannot be shuffled
        figures = [replace(figure, shuffled=None) for figure in figures]
    return replace(record, evidence=(*record.evidence, *figures))


def place_tables(case: ExplainTarget, tables: Sequence[PlacedTable]) -> list[Attention]:
    found = (case.place or by_role)(case, tables)
    if not found:
        raise CallError(NOTHING)
    return found


def transpose_case(case: ExplainTarget, one: Attention) -> Attention:
    """Transpose the table if the case requires it."""
    return placing.transpose_table(case, one) if case.turned else one
