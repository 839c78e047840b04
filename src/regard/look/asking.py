"""Scores of output steps, and gradients of these scores with respect to intermediate vectors.

Each output step needs a separate gradient. The batch repeats the input, one row per step t. The gradient of the sum
over t of row t's score at step t contains all of them, because rows of a batch are independent.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import CallError
from regard.look.card import Figure
from regard.look.case import WHOLE, Case, Parts
from regard.look.hooks import After, hooked
from regard.look.passes import rows_at_once


class Added(NamedTuple):
    """Signed contributions of the parts of an input to each output step.

    parts   T P
    rest    T: contributions of no maskable part (mostly special tokens), and the error of the method
    about   one sentence on reliability
    figures the same as numbers, for the card of a picture
    """

    parts: Float[np.ndarray, "T P"]
    rest: Float[np.ndarray, " T"]
    about: str
    figures: tuple[Figure, ...] = ()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch the model to evaluation mode, and restore its mode afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def step_scores(case: Case) -> tuple[float, ...]:
    """Return the model's score of each output step."""
    with evaluating(case.model), torch.no_grad():
        return tuple(numbers(case.ask([WHOLE])[0]).tolist())


def asked_at(case: Case) -> Callable[[Sequence[Parts], Sequence[int]], np.ndarray]:
    """Return a scorer of single steps: `case.ask_at` if available, else `case.ask`, once per distinct set."""

    def ask_at(without: Sequence[Parts], steps: Sequence[int]) -> np.ndarray:
        if case.ask_at is not None:
            return numbers(case.ask_at(without, steps))
        places = {parts: place for place, parts in enumerate(dict.fromkeys(without))}
        table = numbers(case.ask(list(places)))
        return table[[places[parts] for parts in without], list(steps)]

    return ask_at


def some_steps(case: Case) -> Sequence[Tensor]:
    """Split all step numbers into groups that fit into one pass."""
    vectors = case.each * sum(map(len, case.axes.values()))
    return torch.arange(len(step_scores(case))).split(rows_at_once(vectors))


def at_steps(case: Case, steps: Tensor) -> Tensor:
    """Return the sum of the scores of these steps, each computed in a separate row."""
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN's backward pass needs training mode
        table = case.ask([WHOLE] * len(steps))
        return table[torch.arange(len(steps)), steps].sum()


def require_vectors(case: Case, method: str) -> nn.Module:
    if case.vectors is None or case.gather is None or not case.parts:
        raise CallError(f"method {method} needs input vectors, and this kind of input has none")
    return case.vectors


@contextmanager
def leaves(
    modules: Sequence[nn.Module], change: Callable[[Tensor], Tensor] = lambda x: x
) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Record the outputs of these modules: (original, replacement) per call. The replacement is a gradient leaf."""
    calls: list[tuple[Tensor, Tensor]] = []

    def give(module: nn.Module, inputs: object, output: Tensor) -> Tensor | None:
        x = output.detach()
        calls.append((x, change(x).detach().requires_grad_(torch.is_grad_enabled())))
        return calls[-1][1]

    with hooked(After(module, give) for module in modules):
        yield calls


def by_row(product: np.ndarray, case: Case, steps: int) -> Float[np.ndarray, " T"]:
    """Return the sum for each requested row."""
    rows = product.reshape(len(product), -1).sum(axis=1)
    return rows.reshape(steps, -1)[:, case.row if len(rows) == steps * case.each else 0]


def numbers(x: Tensor) -> np.ndarray:
    return x.detach().double().cpu().numpy()
