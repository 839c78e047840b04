"""Shared code of activation patching by heads, positions, recurrent states and paths.

    r = (s(corrupted, with some states of the clean run) − s(corrupted)) / (s(clean) − s(corrupted))

s is what the model thinks of the answer, summed over its steps, or of one step. The margins of a table are carried at
once: the last column is a whole layer, the last row one part of all layers, the corner everything.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from regard.attention.memory import Memory
from regard.errors import CallError
from regard.look.case import WHOLE, Case
from regard.look.hooks import After, hooked
from regard.look.records import Kind

SAME = 1e-4  # a smaller difference of two answers has nothing to bring back
ALL = "all"


class Patched(NamedTuple):
    """`values`: layers × heads, or layers × positions, with margins where there are several."""

    kind: Kind
    layers: list[str]
    columns: list[str]
    values: np.ndarray


class Answers:
    """Scores of one answer for two inputs, and for the second with states of the first."""

    def __init__(self, clean: Case, corrupted: Case, row: int | None) -> None:
        self.clean, self.corrupted, self.row = clean, corrupted, row
        self.top, self.bottom = self.score(clean), self.score(corrupted)
        if abs(self.top - self.bottom) < SAME:
            raise CallError(
                f"the model thinks the same of this answer by both inputs ({self.top:.4f}): there is nothing to bring "
                "back; give one that differs in something that matters"
            )

    def score(self, case: Case) -> float:
        with torch.no_grad():
            steps = case.ask([WHOLE])[0]
        return float(steps[case.first :].sum() if self.row is None else steps[self.row])

    def share(self) -> float:
        """Return the recovered share of the score for the second input, with the current patches."""
        return (self.score(self.corrupted) - self.bottom) / (self.top - self.bottom)


def with_margins(
    answers: Answers, layers: int, columns: int, carry: Callable[[int, int | None], AbstractContextManager[Any]]
) -> np.ndarray:
    """`carry(layer, column)`: while it is active, that state is the clean one; of column None, all of the layer."""
    rows: list[Sequence[int]] = [*([number] for number in range(layers)), *([range(layers)] if layers > 1 else ())]
    places: list[int | None] = [*range(columns), *([None] if columns > 1 else ())]
    found = np.zeros((len(rows), len(places)))
    for row, some in enumerate(rows):
        for column, place in enumerate(places):
            with ExitStack() as stack:
                for layer in some:
                    stack.enter_context(carry(layer, place))
                found[row, column] = answers.share()
    return found


def margin(names: Sequence[str]) -> list[str]:
    """Of rows or of columns."""
    return [*names, *([ALL] if len(names) > 1 else ())]


def modules_run(case: Case) -> tuple[dict[str, nn.Module], nn.Module | None]:
    """Return the modules that run when the case is scored, in order, and the outermost one with a memory.

    Of two towers, only one runs again."""
    ran: dict[str, nn.Module] = {}
    memories: list[nn.Module] = []
    names = {module: name for name, module in case.model.named_modules()}

    def note(module: nn.Module, args: Any, output: Any) -> None:
        ran[names[module]] = module
        if isinstance(output, Memory):
            memories.append(module)

    with torch.no_grad(), hooked(After(module, note) for module in names):
        case.ask([WHOLE])
    return ran, memories[-1] if memories else None
