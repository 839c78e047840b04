"""Methods that ask any model, with attention or without: what the output feels of each part of the input."""

from threading import get_ident

import numpy as np
import torch
from torch import Tensor, nn

from regard.errors import CallError
from regard.look.asking import at_steps, numbers, some_steps
from regard.look.case import Case
from regard.look.methods.erasure import leave_one_out
from regard.look.methods.gradients import input_times_gradient
from regard.look.records import Attention


def input_gradient(case: Case) -> np.ndarray:
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
            products = [numbers(vectors * gradient) for vectors, gradient in zip(calls, felt, strict=True)]
            rows.append(case.gather(products))
    finally:
        hook.remove()
    return input_times_gradient(np.concatenate(rows))


def without_each(case: Case) -> np.ndarray:
    if not case.parts:
        raise CallError("method='leave-one-out' needs parts of the input that can be left out, and here there are none")
    with torch.no_grad():
        return leave_one_out(len(case.parts), lambda without: numbers(case.ask(without)), both_ways=case.number)


def whole_table(case: Case, method: str, weights: np.ndarray) -> Attention:
    """A method that asks about the whole model has one table, and nothing for tokens that are always there."""
    table = np.zeros((len(weights), len(case.axes[case.columns])))
    table[:, list(case.parts)] = weights
    kind = "decoder" if case.columns == "read" else case.kind
    return Attention(method, kind, 0, table[None], case.rows, case.columns)
