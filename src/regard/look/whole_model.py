"""Attribution methods for any model, with or without attention: contribution of each input part to the output."""

import numpy as np
import torch

from regard.errors import CallError
from regard.look.asking import Added, numbers
from regard.look.card import Figure, normalized
from regard.look.case import Case
from regard.look.methods.attnlrp import attnlrp
from regard.look.methods.erasure import leave_one_out
from regard.look.methods.gradients import input_times_gradient
from regard.look.methods.integrated import integrated_gradients
from regard.look.records import Attention


def input_gradient(case: Case) -> Attention:
    """Return the absolute value of input × gradient; the sign is lost."""
    return _whole_table(case, "input-gradient", normalized(np.abs(input_times_gradient(case).parts)))


def by_integrated_gradients(case: Case) -> Attention:
    return _speaking_for(case, "integrated-gradients", integrated_gradients(case))


def by_relevance(case: Case) -> Attention:
    return _speaking_for(case, "attnlrp", attnlrp(case))


def _speaking_for(case: Case, method: str, found: Added) -> Attention:
    """Return the positive part; for numeric outputs the absolute value."""
    weights = normalized(np.abs(found.parts) if case.number else np.maximum(found.parts, 0.0))
    return _whole_table(case, method, weights, found.figures)


def without_each(case: Case) -> Attention:
    if not case.parts:
        raise CallError("method='leave-one-out' needs parts of the input that can be left out, and here there are none")
    with torch.no_grad():
        weights = leave_one_out(len(case.parts), lambda without: numbers(case.ask(without)), both_ways=case.number)
    return _whole_table(case, "leave-one-out", weights)


def _whole_table(case: Case, method: str, weights: np.ndarray, figures: tuple[Figure, ...] = ()) -> Attention:
    """Return the single table of a method on the whole model, with zeros for tokens that cannot be masked."""
    table = np.zeros((len(weights), len(case.axes[case.columns])))
    table[:, list(case.parts)] = weights
    kind = "decoder" if case.columns == "read" else case.kind
    return Attention(method, kind, 0, table[None], case.rows, case.columns, figures)
