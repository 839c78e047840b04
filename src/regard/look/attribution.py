"""Where a model looked, by any of the methods: a `Case` becomes the tables of a record. The same for every job.

    raw              the weights, as the model computed them
    rollout          followed back through all layers to the input                    methods/rollout.py
    norm             times the length of what they bring                              methods/norms.py
    gradient         times their gradient                                             methods/gradients.py
    input-gradient   the gradient by the vectors of the input, times these            methods/gradients.py
    leave-one-out    what is lost without each part of the input                      methods/erasure.py

The output is forced through the model, so decoding is as it was without anybody looking, and weights are those that
decoding had. Each step of an output has a gradient of its own: a batch repeats the input, one row for each step t, and
the sum of what is asked of row t at step t has all gradients at once, as what belongs to a row cannot feel the others.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import get_ident

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import Trace
from regard.attention.role import Role
from regard.errors import CallError, nearest
from regard.look.case import WHOLE, Case, Parts, Table, by_role
from regard.look.methods import METHODS
from regard.look.methods.erasure import faithfulness, leave_one_out
from regard.look.methods.gradients import gradient_times_attention, input_times_gradient
from regard.look.methods.norms import norm_weighted
from regard.look.methods.rollout import decoder_rollout, rollout
from regard.look.passes import rows_at_once
from regard.look.records import ORDER, Attention, AttentionRecord, Head

NO_END = 1 << 31
NOTHING = (
    "this model has no attention, so there is nothing to look at; the methods input-gradient and leave-one-out ask any "
    "model what it heeds"
)
NOTHING_FOR = (
    "method='gradient' shows the weights that speak for an output, and here none does: log p would only grow without "
    "them; the methods input-gradient and leave-one-out show what the output feels, for it or against it"
)


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
        "rollout": lambda: placed(case, _rolled_out(raw_tables(case))),
        "norm": lambda: placed(case, _norms(case)),
        "gradient": lambda: placed(case, _gradients(case)),
        "input-gradient": lambda: [_whole(case, method, _input_gradient(case))],
        "leave-one-out": lambda: [_whole(case, method, _without_each(case))],
    }
    with evaluating(case.model):
        found = [turned(case, one) for one in ways[method]()]
    shown = [one for one in found if one.rows == case.rows] or found  # a reader's rows are words, not its one step
    if method == "gradient" and not any(one.weights.any() for one in shown):
        raise CallError(NOTHING_FOR)
    return found


def method_shown(case: Case, method: str, found: Sequence[Attention]) -> str:
    """The name of a method, with what was done to its weights, and which rows have nothing to show by it."""
    gated = any(getattr(module, "role", None) == Role("gate") for module in case.model.modules())
    if gated and method not in ("input-gradient", "leave-one-out"):
        method = f"{method}, times the gate"
    rows = [one.weights.any(axis=(0, 2)) for one in found if one.kind == "cross" and one.rows == case.rows]
    silent = ~np.any(rows, axis=0) if rows and method.startswith("gradient") else np.zeros(0, bool)
    labels = [repr(case.axes[case.rows].labels[row]) for row in np.flatnonzero(silent)]
    return f"{method} (no weight speaks for {', '.join(labels)})" if labels else method


def step_scores(case: Case) -> tuple[float, ...]:
    """What the model thinks of each step of the output."""
    with evaluating(case.model), torch.no_grad():
        return tuple(_numbers(case.ask([WHOLE])[0]).tolist())


def with_evidence(record: AttentionRecord, case: Case, layer: int | None, head: Head) -> AttentionRecord:
    """The record, with comprehensiveness and sufficiency of its attention over the input.

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
        figures = faithfulness(
            weights, np.array(step_scores(case)), _asked_at(case), matrix.title, both_ways=case.number
        )
    if len(weights) == 1:  # one row has no other to be shuffled with
        figures = [replace(figure, shuffled=None) for figure in figures]
    return replace(record, evidence=tuple(figures))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Dropout off, and then as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


# -------------------------------------------------------------------------------------------------------------- tables
def raw_tables(case: Case) -> list[Table]:
    """The weights of every attention, as the model computed them."""
    with torch.no_grad(), Trace(case.model) as seen:
        case.ask([WHOLE])
    return _tables(case, seen, lambda name: seen[name])


def _tables(case: Case, seen: Trace, weights: Callable[[str], Tensor]) -> list[Table]:
    try:
        names = seen.names
    except RuntimeError:
        raise CallError(NOTHING) from None
    found = [Table(name, seen.role(name), with_heads(_numbers(weights(name)[case.row]))) for name in names]
    return _gated(found)


def _gated(tables: Sequence[Table]) -> list[Table]:
    """A decoder that can look away says how much of what it saw it let through: weights are shown times that."""
    gates = [table.weights for table in tables if table.role.kind == "gate"]  # 1 T 1
    rest = [table for table in tables if table.role.kind != "gate"]
    if not gates:
        return rest
    return [table._replace(weights=table.weights * gates[0]) if table.role.kind == "cross" else table for table in rest]


def _rolled_out(tables: Sequence[Table]) -> list[Table]:
    kinds: dict[str, list[np.ndarray]] = {"encoder": [], "decoder": [], "cross": [], "pooling": []}
    for table in tables:
        kinds[table.role.kind].append(table.weights)
    encoder, decoder, cross, pooling = kinds.values()
    if any(not table.role.followed for table in tables):
        raise CallError(
            "method='rollout' follows attention from layer to layer, which takes a Vision Transformer; in a CNN, "
            "convolutions mix what is near in between: method='raw' shows each layer"
        )
    if len({weights.shape[-1] for weights in encoder}) > 1:
        raise CallError("method='rollout' follows attention through layers of one size, and these look at other grids")
    through = rollout(encoder) if encoder else None
    found: list[Table] = []
    if decoder and cross:
        width = cross[0].shape[-1]
        mixed = np.eye(width) if through is None or len(through) < width else through[-width:, -width:]
        written, source = decoder_rollout(decoder, cross, mixed)
        found = [_rolled("cross", source), _rolled("decoder", written)]
    elif decoder:
        found = [_rolled("decoder", rollout(decoder))]
    elif pooling and through is not None:
        found = [_rolled("pooling", pooling[-1][0] @ through[-pooling[-1].shape[-1] :])]  # a class token is not pooled
    elif cross or through is None:
        raise CallError(
            "method='rollout' follows attention from layer to layer, which takes a Transformer; here attention over "
            "the input is one step: method='raw' shows it"
        )
    return [*found, *([] if through is None else [_rolled("encoder", through)])]


def _rolled(kind: str, table: np.ndarray) -> Table:
    return Table(f"rollout.{kind}", Role(kind), table[None])  # pyright: ignore[reportArgumentType]


def _norms(case: Case) -> list[Table]:
    with torch.no_grad(), Trace(case.model, values=True) as seen:
        case.ask([WHOLE])

    def weighted(table: Table) -> Table:
        value, out = seen.values(table.name)
        value = with_heads(_numbers(value[case.row]))
        value = value.repeat(len(table.weights) // len(value), axis=0)  # heads may share keys and values
        return table._replace(weights=norm_weighted(table.weights, value, None if out is None else _numbers(out)))

    return [weighted(table) for table in _tables(case, seen, lambda name: seen[name])]


def _gradients(case: Case) -> list[Table]:
    raw = raw_tables(case)
    felt = weight_gradients(case, raw)
    return [
        table._replace(weights=gradient_times_attention(table.weights, felt[table.name], both_ways=case.number))
        for table in raw
    ]


def weight_gradients(case: Case, raw: Sequence[Table]) -> dict[str, np.ndarray]:
    """H Q K for each attention: of a decoder's row, the gradient of its own step; of an encoder's, of all steps."""
    felt: dict[str, np.ndarray] = {table.name: np.zeros_like(table.weights, np.float64) for table in raw}
    for steps in some_steps(case):
        with Trace(case.model, gradients=True) as seen:
            total = at_steps(case, steps)
        for name, gradient in seen.gradients(total).items():
            if name not in felt:
                continue
            rows = gradient[case.row :: case.each]  # one for each step
            own = case.places if seen.role(name).kind in ("encoder", "pooling") else range(case.offset, NO_END)
            if not case.by_step or not own:  # queries that belong to no step
                felt[name] += with_heads(_numbers(rows.sum(0)))
            else:
                for row, step in zip(rows, steps.tolist(), strict=True):
                    felt[name][:, own[step]] += with_heads(_numbers(row))[:, own[step]]
    return felt


def placed(case: Case, tables: Sequence[Table]) -> list[Attention]:
    found = (case.place or by_role)(case, tables)
    if not found:
        raise CallError(NOTHING)
    return found


# ------------------------------------------------------------------------------------------------------ the whole model
def _input_gradient(case: Case) -> np.ndarray:
    if case.vectors is None or case.gather is None:
        raise CallError("method='input-gradient' needs vectors that the model was given, and this input has none")
    calls: list[Tensor] = []
    asking = get_ident()

    def note(module: nn.Module, inputs: object, output: Tensor) -> Tensor | None:
        if get_ident() != asking:  # somebody else's, between two steps of this
            return None
        calls.append(output if output.requires_grad else output.detach().requires_grad_())
        return calls[-1]

    hook = case.vectors.register_forward_hook(note)
    rows = []
    try:
        for steps in some_steps(case):
            calls.clear()
            felt = torch.autograd.grad(at_steps(case, steps), calls)
            products = [_numbers(vectors * gradient) for vectors, gradient in zip(calls, felt, strict=True)]
            rows.append(case.gather(products))
    finally:
        hook.remove()
    return input_times_gradient(np.concatenate(rows))


def _without_each(case: Case) -> np.ndarray:
    if not case.parts:
        raise CallError("method='leave-one-out' needs parts of the input that can be left out, and here there are none")
    with torch.no_grad():
        return leave_one_out(len(case.parts), _asked(case), both_ways=case.number)


def _whole(case: Case, method: str, weights: np.ndarray) -> Attention:
    """A method that asks about the whole model has one table, and nothing for tokens that are always there."""
    table = np.zeros((len(weights), len(case.axes[case.columns])))
    table[:, list(case.parts)] = weights
    kind = "decoder" if case.columns == "read" else case.kind
    return Attention(method, kind, 0, table[None], case.rows, case.columns)


def turned(case: Case, one: Attention) -> Attention:
    """The other way round, where the case wants it; twice is as it was."""
    if not case.turned or {one.rows, one.columns} != {case.rows, case.columns}:
        return one
    return replace(one, weights=one.weights.swapaxes(1, 2), rows=one.columns, columns=one.rows)


def _asked(case: Case) -> Callable[[Sequence[frozenset[int]]], np.ndarray]:
    return lambda without: _numbers(case.ask(without))


def _asked_at(case: Case) -> Callable[[Sequence[Parts], Sequence[int]], np.ndarray]:
    """By the cheaper way, if the case has one; else by asking about all steps, once for sets that are equal."""

    def ask_at(without: Sequence[Parts], steps: Sequence[int]) -> np.ndarray:
        if case.ask_at is not None:
            return _numbers(case.ask_at(without, steps))
        places = {parts: place for place, parts in enumerate(dict.fromkeys(without))}
        table = _numbers(case.ask(list(places)))
        return table[[places[parts] for parts in without], list(steps)]

    return ask_at


def some_steps(case: Case) -> Sequence[Tensor]:
    """All steps, so many at once as one pass may have rows."""
    vectors = case.each * sum(map(len, case.axes.values()))
    return torch.arange(len(step_scores(case))).split(rows_at_once(vectors))


def at_steps(case: Case, steps: Tensor) -> Tensor:
    """Σ_t of what is asked at step t, each in a row of its own."""
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN's way back is for training only
        table = case.ask([WHOLE] * len(steps))
        return table[torch.arange(len(steps)), steps].sum()


def with_heads(table: np.ndarray) -> np.ndarray:
    """Attention of one head has no dimension for it."""
    return table[None] if table.ndim == 2 else table


def _numbers(x: Tensor) -> np.ndarray:
    return x.detach().float().cpu().numpy()
