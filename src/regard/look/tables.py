"""Tables of a case by methods on attention weights: raw, rollout, norm, gradient.

Rollout gives one table for each kind of attention, the others one for each attention."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.attention import Trace
from regard.attention.role import Role
from regard.errors import CallError
from regard.look.asking import at_steps, numbers, some_steps
from regard.look.case import WHOLE, Case
from regard.look.methods.gradients import gradient_times_attention
from regard.look.methods.norms import norm_weighted
from regard.look.methods.rollout import decoder_rollout, rollout
from regard.look.placing import Table, gated, with_heads

NO_END = 1 << 31
NOTHING_FOR = (
    "method={method!r} shows what speaks for an output, and here nothing does; the method input-gradient shows what "
    "the output feels, for it or against it, and --explain inputs (run.explain) both with their sign"
)
NOTHING = (
    "this model has no attention, so there is nothing to look at; the methods input-gradient and leave-one-out ask any "
    "model what it heeds"
)


def raw_tables(case: Case) -> list[Table]:
    """Return the weights of every attention, as the model computed them."""
    with torch.no_grad(), Trace(case.model) as seen:
        case.ask([WHOLE])
    return _tables(case, seen, lambda name: seen[name])


def _tables(case: Case, seen: Trace, weights: Callable[[str], Tensor]) -> list[Table]:
    try:
        names = seen.names
    except RuntimeError:
        raise CallError(NOTHING) from None
    found = [Table(name, seen.role(name), with_heads(numbers(weights(name)[case.row]))) for name in names]
    return gated(found)


def rolled_out_tables(tables: Sequence[Table]) -> list[Table]:
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


def norm_tables(case: Case) -> list[Table]:
    with torch.no_grad(), Trace(case.model, values=True) as seen:
        case.ask([WHOLE])

    def weighted(table: Table) -> Table:
        value, out = seen.values(table.name)
        value = with_heads(numbers(value[case.row]))
        value = value.repeat(len(table.weights) // len(value), axis=0)  # heads may share keys and values
        return table._replace(weights=norm_weighted(table.weights, value, None if out is None else numbers(out)))

    return [weighted(table) for table in _tables(case, seen, lambda name: seen[name])]


def gradient_tables(case: Case) -> list[Table]:
    raw = raw_tables(case)
    felt = weight_gradients(case, raw)
    return [
        table._replace(weights=gradient_times_attention(table.weights, felt[table.name], both_ways=case.number))
        for table in raw
    ]


def weight_gradients(case: Case, raw: Sequence[Table]) -> dict[str, np.ndarray]:
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
                felt[name] += with_heads(numbers(rows.sum(0)))
            else:
                for row, step in zip(rows, steps.tolist(), strict=True):
                    felt[name][:, own[step]] += with_heads(numbers(row))[:, own[step]]
    return felt
