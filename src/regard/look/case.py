"""`ExplainTarget`: one input and one output of a model, with the functions to score them.

A job makes a case (axes and `ask`), and `look/attribution.py` makes a record of it by any method. So each method is
implemented once for all kinds of input and output.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import CallError
from regard.look.axis import Axis
from regard.look.card import Figure
from regard.look.hooks import After, active_hooks, rows_at_once
from regard.look.placing import PlacedTable
from regard.look.records import Attention, Kind
from regard.look.stream import ResidualStream

Parts = frozenset[int]  # numbers of the masked parts of an input
WHOLE: Parts = frozenset()


@dataclass(frozen=True)
class ExplainTarget:
    """A model with one input and one output to explain.

    model     the traced model
    ask       for each of N sets of masked parts, the score of every output step (log p, a cosine or a number): N T,
              with gradients if torch has them enabled
    axes      axes of the tables, by name; `rows` and `columns` name those of methods on the whole model
    parts     positions of the maskable parts of the input on the axis `columns`
    vectors   the module whose outputs are the vectors of the input, for its gradients; None: no such module
    gather    input × gradient at the outputs of `vectors` (N …, one per call) → N P, summed by part
    place     selects the tables and their axes
    by_step   rows of cross-attention are output steps; False: other rows, such as those of an encoder
    turned    show tables between rows and columns transposed: a row is an input part with the steps that looked at it,
              so that a word can be laid over a generated picture
    number    steps are numbers, not log-probabilities: changes in both directions count
    offset    the row of a decoder's table for the first step
    first     the first step after the given prefix
    places    the row of an encoder's table for each step, if the output predicts one value per vector
    each, row   rows of a batch per input, and which of them is recorded
    kind      kind of the tables between `rows` and `columns`
    ask_at    N sets and one step per set → N, if this is cheaper than `ask` with all steps
    stream    the layers of a Transformer decoder, and its map from states to tokens
    instead   the contrast word: `ask` gives the lead of the answer over it; None: the score of the answer alone
    beside    the same answer for other inputs (a text with a picture), each with separate columns
    """

    model: nn.Module
    ask: Callable[[Sequence[Parts]], Float[Tensor, "N T"]]
    axes: Mapping[str, Axis]
    parts: Sequence[int] = ()
    vectors: nn.Module | None = None
    gather: Callable[[Sequence[np.ndarray]], Float[np.ndarray, "N P"]] | None = None
    place: "Callable[[ExplainTarget, Sequence[PlacedTable]], list[Attention]] | None" = None
    rows: str = "target"
    columns: str = "source"
    by_step: bool = True
    turned: bool = False
    number: bool = False
    offset: int = 0
    first: int = 0
    places: Sequence[int] = ()
    each: int = 1
    row: int = 0
    kind: Kind = "cross"
    ask_at: Callable[[Sequence[Parts], Sequence[int]], Float[Tensor, " N"]] | None = None
    stream: ResidualStream | None = None
    instead: str | None = None
    beside: "Sequence[ExplainTarget]" = ()


# Scores of output steps, and gradients of these scores with respect to intermediate vectors.
#
# Each output step needs a separate gradient. The batch repeats the input, one row per step t. The gradient of the sum
# over t of row t's score at step t contains all of them, because rows of a batch are independent.


class Contributions(NamedTuple):
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


def step_scores(case: ExplainTarget) -> tuple[float, ...]:
    """Return the model's score of each output step."""
    with evaluating(case.model), torch.no_grad():
        return tuple(to_numpy(case.ask([WHOLE])[0]).tolist())


def step_scorer(case: ExplainTarget) -> Callable[[Sequence[Parts], Sequence[int]], np.ndarray]:
    """Return a scorer of single steps: `case.ask_at` if available, else `case.ask`, once per distinct set."""

    def ask_at(without: Sequence[Parts], steps: Sequence[int]) -> np.ndarray:
        if case.ask_at is not None:
            return to_numpy(case.ask_at(without, steps))
        places = {parts: place for place, parts in enumerate(dict.fromkeys(without))}
        table = to_numpy(case.ask(list(places)))
        return table[[places[parts] for parts in without], list(steps)]

    return ask_at


def some_steps(case: ExplainTarget) -> Sequence[Tensor]:
    """Split all step numbers into groups that fit into one pass."""
    vectors = case.each * sum(map(len, case.axes.values()))
    return torch.arange(len(step_scores(case))).split(rows_at_once(vectors))


def at_steps(case: ExplainTarget, steps: Tensor) -> Tensor:
    """Return the sum of the scores of these steps, each computed in a separate row."""
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN's backward pass needs training mode
        table = case.ask([WHOLE] * len(steps))
        return table[torch.arange(len(steps)), steps].sum()


def require_vectors(case: ExplainTarget, method: str) -> nn.Module:
    if case.vectors is None or case.gather is None or not case.parts:
        raise CallError(f"method {method} needs input vectors, and this kind of input has none")
    return case.vectors


@contextmanager
def detached_outputs(
    modules: Sequence[nn.Module], change: Callable[[Tensor], Tensor] = lambda x: x
) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Record the outputs of these modules: (original, replacement) per call. The replacement is a gradient leaf."""
    calls: list[tuple[Tensor, Tensor]] = []

    def give(module: nn.Module, inputs: object, output: Tensor) -> Tensor | None:
        x = output.detach()
        calls.append((x, change(x).detach().requires_grad_(torch.is_grad_enabled())))
        return calls[-1][1]

    with active_hooks(After(module, give) for module in modules):
        yield calls


def by_row(product: np.ndarray, case: ExplainTarget, steps: int) -> Float[np.ndarray, " T"]:
    """Return the sum for each requested row."""
    rows = product.reshape(len(product), -1).sum(axis=1)
    return rows.reshape(steps, -1)[:, case.row if len(rows) == steps * case.each else 0]


def to_numpy(x: Tensor) -> np.ndarray:
    return x.detach().double().cpu().numpy()
