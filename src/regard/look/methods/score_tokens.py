"""Integrated gradients of one attention score: the contribution of each input part.

    e(x) = e(0) + Σ_i x_i · ∫₀¹ ∂e(αx) / ∂x_i dα

As `integrated`, asked about a score in the place of an output: layers and recurrent states in between are gone through,
so that what is left are words, regions, frames or steps of the input. `origins` stops one step earlier, and is exact.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.attention import Trace
from regard.look.asking import step_scores
from regard.look.case import Case, Parts
from regard.look.methods.integrated import integrated_gradients
from regard.look.methods.origins import Origin


def score_tokens(case: Case, name: str, call: int, head: int, query: int, key: int) -> list[Origin]:
    """Their sum is the score and its bias. What is of no part of the input is there by an input of zeros already."""

    def ask(without: Sequence[Parts]) -> Tensor:
        with Trace(case.model, scores=True) as seen:
            case.ask(without)
        scoring, weights = seen.scorings(name)[call], seen.calls(name)[call]
        weights = weights if weights.ndim == 4 else weights.unsqueeze(1)
        rows = [scoring.row(weights, case.each * n + case.row, head, query) for n in range(len(without))]
        biases = [0.0 if row.bias is None else row.bias[key] for row in rows]
        return torch.stack([row.with_key(key).terms().sum() + b for row, b in zip(rows, biases, strict=True)])[:, None]

    asked = replace(case, ask=ask, ask_at=None)
    with torch.enable_grad():
        found = integrated_gradients(asked)
    labels = [case.axes[case.columns].labels[place] for place in case.parts]
    added = [Origin("both", "token", label, float(value)) for label, value in zip(labels, found.parts[0], strict=True)]
    rest, (score,) = float(found.rest[0]), step_scores(asked)
    nothing = score - rest - sum(part.value for part in added)
    return [*added, Origin("both", "rest", "the rest", rest), Origin("both", "bias", "an input of zeros", nothing)]
