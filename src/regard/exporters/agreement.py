"""Comparison of a run with its export: their numbers and outputs."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.api import Run
from regard.errors import CallError, RegardError
from regard.exporters.proof import TOLERANCE


class Difference(NamedTuple):
    largest: float
    place: str


def difference(ours: Tensor, theirs: Tensor, what: str) -> Difference:
    """The largest, and where it is: `logits[3, 17]`."""
    if ours.shape != theirs.shape:
        shapes = f"{tuple(theirs.shape)} in the place of {tuple(ours.shape)}"
        raise RegardError(f"the export gives {what} of the shape {shapes}")
    apart = (ours.detach().double().cpu() - theirs.detach().double().cpu()).abs()
    if not apart.numel():
        return Difference(0.0, what)
    if apart.isnan().any():
        return Difference(float("nan"), what)
    place = torch.unravel_index(apart.argmax(), apart.shape)
    return Difference(float(apart.max()), f"{what}[{', '.join(str(int(index)) for index in place)}]")


def worst(found: Iterable[Difference]) -> Difference:
    """Return the largest difference; NaN counts as larger than all."""
    return max(found, key=lambda one: math.inf if math.isnan(one.largest) else one.largest)


def require_same_tokens(ours: Sequence[int], theirs: Sequence[int], text: str) -> None:
    if list(ours) != list(theirs):
        raise RegardError(
            f"the tokenizer of the export cuts {text[:60]!r} otherwise: {list(theirs)[:20]} in the place of "
            f"{list(ours)[:20]}; nothing was written"
        )


def tied(run: Run, one: Any, ours: str, theirs: str) -> bool:
    """Whether the model itself finds two outputs of one input equally good."""
    if ours == theirs:
        return False
    try:
        first, second = run.job.score([one, one], [ours, theirs])
    except CallError:
        return False
    return abs((first.score or 0.0) - (second.score or 0.0)) <= TOLERANCE


def tied_at(logits: Tensor, ours: Sequence[int], theirs: Sequence[int], within: float = TOLERANCE) -> bool:
    """Return whether two greedy texts differ first at a tie of two tokens. Row t of the logits predicts token t."""
    pairs = zip(ours, theirs, strict=False)
    step = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
    if step is None:
        return False
    return abs(float(logits[step, ours[step]] - logits[step, theirs[step]])) <= within
