"""Compute the tables of a record from a `Case`, by any method. The same for every job.

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

from regard.attention.role import Role
from regard.errors import CallError, nearest
from regard.look import placing
from regard.look.asking import asked_at, evaluating
from regard.look.case import Case
from regard.look.methods import ABOUT_OUTPUT, METHODS, SPEAKING_FOR
from regard.look.methods.erasure import faithfulness
from regard.look.placing import Table, by_role
from regard.look.records import ORDER, Attention, AttentionRecord, Head
from regard.look.tables import NOTHING, NOTHING_FOR, gradient_tables, norm_tables, raw_tables, rolled_out_tables
from regard.look.whole_model import by_integrated_gradients, by_relevance, input_gradient, without_each


def attentions(case: Case, method: str = "raw") -> tuple[Attention, ...]:
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


def _by_method(case: Case, method: str) -> list[Attention]:
    ways: dict[str, Callable[[], list[Attention]]] = {
        "raw": lambda: placed(case, raw_tables(case)),
        "rollout": lambda: placed(case, rolled_out_tables(raw_tables(case))),
        "norm": lambda: placed(case, norm_tables(case)),
        "gradient": lambda: placed(case, gradient_tables(case)),
        "input-gradient": lambda: [input_gradient(case)],
        "integrated-gradients": lambda: [by_integrated_gradients(case)],
        "attnlrp": lambda: [by_relevance(case)],
        "leave-one-out": lambda: [without_each(case)],
    }
    with evaluating(case.model):
        found = [turned(case, one) for one in ways[method]()]
    shown = [one for one in found if one.rows == case.rows] or found  # rows of a reader are words, not output steps
    if method in SPEAKING_FOR and not any(one.weights.any() for one in shown):
        raise CallError(NOTHING_FOR.format(method=method))
    return found


def method_shown(case: Case, method: str, found: Sequence[Attention]) -> str:
    """Return the method name for captions, with gating and with the rows that have no weights."""
    speaking = method in SPEAKING_FOR
    gated = any(getattr(module, "role", None) == Role("gate") for module in case.model.modules())
    if gated and (method == "gradient" or method not in ABOUT_OUTPUT):
        method = f"{method}, times the gate"
    rows = [one.weights.any(axis=(0, 2)) for one in found if one.kind == "cross" and one.rows == case.rows]
    silent = ~np.any(rows, axis=0) if rows and speaking else np.zeros(0, bool)
    labels = [repr(case.axes[case.rows].labels[row]) for row in np.flatnonzero(silent)]
    shown = {axis for one in found for axis in (one.rows, one.columns)}
    told = [f"nothing speaks for {', '.join(labels)}"] if labels else []
    told += [
        f"nothing of the {side.columns} does" for side in (case, *case.beside) if speaking and side.columns not in shown
    ]
    return f"{method} ({'; '.join(told)})" if told else method


def with_evidence(
    record: AttentionRecord, case: Case, scores: Sequence[float], layer: int | None, head: Head
) -> AttentionRecord:
    """Return the record with comprehensiveness and sufficiency of its attention over the input.

    `scores` are the scores of the steps on the full input. The record is unchanged unless its table is output steps ×
    input parts.
    """
    if "cross" not in record.kinds or not case.parts:
        return record
    matrix = record.matrix("cross", layer, head)
    one = turned(case, replace(record.of_kind("cross")[0], weights=matrix.weights[None]))
    if (one.rows, one.columns) != (case.rows, case.columns):
        return record
    with evaluating(case.model), torch.no_grad():
        weights = one.weights[0][:, list(case.parts)]
        figures = faithfulness(weights, np.array(scores), asked_at(case), matrix.title, both_ways=case.number)
    if len(weights) == 1:  # a single row cannot be shuffled
        figures = [replace(figure, shuffled=None) for figure in figures]
    return replace(record, evidence=(*record.evidence, *figures))


def placed(case: Case, tables: Sequence[Table]) -> list[Attention]:
    found = (case.place or by_role)(case, tables)
    if not found:
        raise CallError(NOTHING)
    return found


def turned(case: Case, one: Attention) -> Attention:
    """Transpose the table if the case requires it."""
    return placing.turned(case, one) if case.turned else one
