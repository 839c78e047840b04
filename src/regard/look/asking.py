"""How a case is asked: what the model thinks of all steps of the output, or of some, and what its answers feel of
vectors on the way to them.

Each step of an output has a gradient of its own: a batch repeats the input, one row for each step t, and the sum of
what is asked of row t at step t has all gradients at once, as what belongs to a row cannot feel the others.
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
    """What the parts of an input add to each step of the output, with a sign.

    parts   T P
    rest    T: what is of no part that could be left out, special tokens above all, and what a method loses on its way
    about   how far to believe it, in a sentence
    figures the same as numbers, for the card of a picture: where all that was shared out has arrived
    """

    parts: Float[np.ndarray, "T P"]
    rest: Float[np.ndarray, " T"]
    about: str
    figures: tuple[Figure, ...] = ()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Dropout off, and then as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def step_scores(case: Case) -> tuple[float, ...]:
    """What the model thinks of each step of the output."""
    with evaluating(case.model), torch.no_grad():
        return tuple(numbers(case.ask([WHOLE])[0]).tolist())


def asked_at(case: Case) -> Callable[[Sequence[Parts], Sequence[int]], np.ndarray]:
    """By the cheaper way, if the case has one; else by asking about all steps, once for sets that are equal."""

    def ask_at(without: Sequence[Parts], steps: Sequence[int]) -> np.ndarray:
        if case.ask_at is not None:
            return numbers(case.ask_at(without, steps))
        places = {parts: place for place, parts in enumerate(dict.fromkeys(without))}
        table = numbers(case.ask(list(places)))
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


def require_vectors(case: Case, method: str) -> nn.Module:
    if case.vectors is None or case.gather is None or not case.parts:
        raise CallError(f"{method} needs vectors that the model was given, and this input has none")
    return case.vectors


@contextmanager
def leaves(
    modules: Sequence[nn.Module], change: Callable[[Tensor], Tensor] = lambda x: x
) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """What these modules give on, call by call: as it was, and as it is given on instead, a leaf of the gradients."""
    calls: list[tuple[Tensor, Tensor]] = []

    def give(module: nn.Module, inputs: object, output: Tensor) -> Tensor | None:
        x = output.detach()
        calls.append((x, change(x).detach().requires_grad_(torch.is_grad_enabled())))
        return calls[-1][1]

    with hooked(After(module, give) for module in modules):
        yield calls


def by_row(product: np.ndarray, case: Case, steps: int) -> Float[np.ndarray, " T"]:
    """The sum of all that belongs to each row that was asked about."""
    rows = product.reshape(len(product), -1).sum(axis=1)
    return rows.reshape(steps, -1)[:, case.row if len(rows) == steps * case.each else 0]


def numbers(x: Tensor) -> np.ndarray:
    return x.detach().double().cpu().numpy()
