"""How a case is asked: about all steps of the output, about some of them, and with gradients.

Each step of an output has a gradient of its own: a batch repeats the input, one row for each step t, and the sum of
what is asked of row t at step t has all gradients at once, as what belongs to a row cannot feel the others.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from regard.look.case import WHOLE, Case, Parts
from regard.look.passes import rows_at_once


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


def numbers(x: Tensor) -> np.ndarray:
    return x.detach().float().cpu().numpy()
