"""Where a model looked, by any of the methods: a `Case` becomes the tables of a record. The same for every job.

    raw              the weights, as the model computed them
    rollout          followed back through all layers to the input                    methods/rollout.py
    norm             times the length of what they bring                              methods/norms.py
    gradient         times their gradient                                             methods/gradients.py
    input-gradient   the gradient by the vectors of the input, times these            methods/gradients.py
    integrated-gradients   the same, along the way from zeros to the input            methods/integrated.py
    attnlrp          relevance, by a rule for each operation                          methods/attnlrp.py
    leave-one-out    what is lost without each part of the input                      methods/erasure.py

The output is forced through the model, so decoding is as it was without anybody looking, and weights are those that
decoding had.
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
    """The tables of a record, cross-attention first. Of a case with several sides, those of each that has any."""
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
    shown = [one for one in found if one.rows == case.rows] or found  # a reader's rows are words, not its one step
    if method in SPEAKING_FOR and not any(one.weights.any() for one in shown):
        raise CallError(NOTHING_FOR.format(method=method))
    return found


def method_shown(case: Case, method: str, found: Sequence[Attention]) -> str:
    """The name of a method, with what was done to its weights, and which rows have nothing to show by it."""
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
    """The record, also with comprehensiveness and sufficiency of its attention over the input. `scores`: what the model
    thinks of each step of the case when it has all of the input.

    Where that is not a table between the steps that are asked about and the parts of the input, there is none.
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
    if len(weights) == 1:  # one row has no other to be shuffled with
        figures = [replace(figure, shuffled=None) for figure in figures]
    return replace(record, evidence=(*record.evidence, *figures))


def placed(case: Case, tables: Sequence[Table]) -> list[Attention]:
    found = (case.place or by_role)(case, tables)
    if not found:
        raise CallError(NOTHING)
    return found


def turned(case: Case, one: Attention) -> Attention:
    """The other way round, where the case wants it; twice is as it was."""
    return placing.turned(case, one) if case.turned else one
