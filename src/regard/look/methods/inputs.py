"""Methods that attribute the output to the input: gradients, integrated gradients, erasure, rollout, norms."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import Trace
from regard.look.card import Figure, normalize_rows, wrong_order
from regard.look.case import (
    WHOLE,
    Contributions,
    ExplainTarget,
    Parts,
    at_steps,
    by_row,
    detached_outputs,
    require_vectors,
    some_steps,
    step_scores,
    to_numpy,
)
from regard.look.methods.origins import Origin

# Gradients of log p(y_t | y_<t, x) with respect to the weights or the input.
#
#     gradient × attention    (α_ti · ∂ log p(y_t) / ∂α_ti)⁺      Chefer et al. 2021, section 3.1 (arXiv:2103.15679);
#                                                                 they average heads and multiply layers
#     input × gradient        |x_i · ∂ log p(y_t) / ∂x_i|         Denil et al. 2014 (arXiv:1412.6815), Shrikumar et al.
#                                                                 2016 (arXiv:1605.01713); x_i: the token's embedding
#
# Where we differ: every layer and head has a separate table, layers are not multiplied, and rows are scaled to sum to
# one. The first is a first-order estimate of the loss without a weight; its positive part supports the output. The
# absolute value in the second loses the sign: whether a token supports or opposes the output.


def gradient_times_attention(
    weights: Float[np.ndarray, "*b Q K"], gradient: Float[np.ndarray, "*b Q K"], *, both_ways: bool = False
) -> Float[np.ndarray, "*b Q K"]:
    """Return weight × gradient. `both_ways`: the output is a number, so both signs count."""
    felt = weights * gradient
    return normalize_rows(np.abs(felt) if both_ways else np.maximum(felt, 0.0))


def input_times_gradient(case: ExplainTarget) -> Contributions:
    """Return x_i · ∂ log p(y_t) / ∂x_i, with its sign."""
    vectors = require_vectors(case, "input-gradient")
    assert case.gather is not None
    parts, whole = [], []
    for steps in some_steps(case):
        with detached_outputs([vectors]) as calls:
            felt = torch.autograd.grad(at_steps(case, steps), [leaf for _, leaf in calls])
        products = [to_numpy(x * gradient) for (x, _), gradient in zip(calls, felt, strict=True)]
        parts.append(case.gather(products))
        whole.append(sum(by_row(product, case, len(steps)) for product in products))
    added = np.concatenate(parts)
    return Contributions(added, np.concatenate(whole) - added.sum(axis=1), "A gradient describes small changes only.")


STEPS = 32


def integrated_gradients(case: ExplainTarget, pieces: int = STEPS) -> Contributions:
    """Integrated gradients: the contribution of each input part to the output.

        IG_i(t) = x_i · ∫₀¹ ∂ s_t(αx) / ∂x_i dα        Σ_i IG_i(t) = s_t(x) − s_t(0)

    Sundararajan et al. 2017, section 3 (arXiv:1703.01365). s_t is the score of step t (log p), x the vectors of the
    input: embeddings without positions, patches, frames. The integral is a sum over the midpoints of `STEPS` equal
    intervals; the difference between both sides of the second equation is reported. Unlike input × gradient, the
    method works where the output is saturated. The result depends on the baseline, here zeros.
    """
    vectors = require_vectors(case, "integrated-gradients")
    assert case.gather is not None
    parts, whole = [], []
    for steps in some_steps(case):
        products: list[np.ndarray] = []
        for piece in range(pieces):
            share = (piece + 0.5) / pieces
            with detached_outputs([vectors], lambda x, share=share: share * x) as calls:
                felt = torch.autograd.grad(at_steps(case, steps), [leaf for _, leaf in calls])
            found = [to_numpy(x * gradient) / pieces for (x, _), gradient in zip(calls, felt, strict=True)]
            products = found if not products else [a + b for a, b in zip(products, found, strict=True)]
        parts.append(case.gather(products))
        whole.append(sum(by_row(product, case, len(steps)) for product in products))
    with torch.no_grad(), detached_outputs([vectors], torch.zeros_like):
        nothing = to_numpy(case.ask([WHOLE])[0])
    added, total = np.concatenate(parts), np.concatenate(whole)
    apart = np.array(step_scores(case)) - nothing
    error = float(np.abs(apart - total).sum() / max(np.abs(apart).sum(), 1e-12))
    figures = (
        Figure("more than for an input of zeros", float(apart.sum())), Figure("of it at the input", float(total.sum())),
        Figure("share of it that is lost", error, better="low"),
    )  # fmt: skip
    about = f"{error:.1%} of the difference to an input of zeros is lost by the numeric integral."
    return Contributions(added, total - added.sum(axis=1), about, figures)


# Score the output again with parts of the input masked.
#
#     leave-one-out       (log p(y_t | x) − log p(y_t | x without x_i))⁺          Li et al. 2016 (arXiv:1612.08220)
#
#     comprehensiveness   log p(y_t | x) − log p(y_t | x without the k parts of most weight)    high: they were needed
#     sufficiency         log p(y_t | x) − log p(y_t | those k parts alone)                     low: they were enough
#
# The last two: DeYoung et al. 2020, section 4 (arXiv:1911.03429), means over several k and over the steps t. Where we
# differ: log-probabilities of tokens instead of the probability of a class; k is a tenth, a fifth and a half of the
# parts, at least one; of a long output 16 steps are measured, evenly spaced, 8 if the table is large (50 steps of 50
# parts), and 4 if the input is long (128 parts), so the cost is at most twice that of a record. The input type defines
# parts and masking: words are deleted, as in the paper, regions of a picture are covered, sound is silenced. If a step
# is a number and not a probability, any change counts.
#
# Baselines: random weights (*uniform* weights have no order, so a few seeded random orders replace them), and the rows
# of the table in a wrong order (*shuffled*). Shuffled rows mask the same parts as the right ones, so the model scores 6
# sets of parts for each step, and about 24 in all for the random orders (12 or 6 with fewer steps: with many parts,
# random choices are similar).

Ask = Callable[[Sequence[frozenset[int]]], Float[np.ndarray, "N T"]]  # each step of one output, without some parts
AskAt = Callable[[Sequence[frozenset[int]], Sequence[int]], Float[np.ndarray, " N"]]  # one step, without some parts
SHARES = (0.1, 0.2, 0.5)
MOST_STEPS = 16  # steps of a long output that are measured,
RANDOM_ORDERS = 4  # and random orders, shared by the steps;
LARGE = 2500  # half of both from this number of weights on,
LONG = 128  # a quarter from this number of parts on


def leave_one_out(parts: int, ask: Ask, *, both_ways: bool = False) -> Float[np.ndarray, "T P"]:
    """Return one column per input part. `both_ways`: any change counts, not only a loss."""
    whole, *without = ask([frozenset(), *(frozenset([part]) for part in range(parts))])
    lost = whole[:, None] - np.stack(without, axis=1)
    return normalize_rows(np.abs(lost) if both_ways else np.maximum(lost, 0.0))


def faithfulness(
    weights: Float[np.ndarray, "T P"],
    whole: Float[np.ndarray, " T"],
    ask_at: AskAt,
    about: str = "",
    *,
    both_ways: bool = False,
) -> list[Figure]:
    """Return comprehensiveness and sufficiency of a table (a column for each input part), with both baselines.

    `whole` are the scores of the steps for the full input.
    """
    less = 4 if weights.shape[1] > LONG else 2 if weights.size > LARGE else 1
    steps = np.linspace(0, len(weights) - 1, min(len(weights), MOST_STEPS // less)).round().astype(int)
    own, orders = weights[steps], RANDOM_ORDERS // less
    random = np.random.default_rng(0).random((orders, weights.shape[1]))
    tables = (own, random[np.arange(len(steps)) % orders], own[wrong_order(len(steps))])
    asked = [one for table in tables for one in _erasure_values(table)]
    # For each table and each share: first without the parts, then the parts alone, for each step.
    found = ask_at(asked, steps.tolist() * (len(asked) // len(steps)))
    lost = whole[steps] - found.reshape(len(tables), len(SHARES), 2, len(steps))
    unit = "" if both_ways else "nats"
    lost = (np.abs(lost) if both_ways else lost).mean(axis=(1, 3))
    return [
        Figure("comprehensiveness", *map(float, lost[:, 0]), better="high", about=about, unit=unit),
        Figure("sufficiency", *map(float, lost[:, 1]), better="low", about=about, unit=unit),
    ]


def _erasure_values(table: Float[np.ndarray, "T P"]) -> list[frozenset[int]]:
    every, found = frozenset(range(table.shape[1])), []
    for share in SHARES:
        most = max(1, round(share * table.shape[1]))
        chosen = [frozenset(np.argsort(-row, kind="stable")[:most].tolist()) for row in table]
        found += [*chosen, *(every - some for some in chosen)]
    return found


# Attention rollout: how much of each input token arrives at each position, through all layers.
#
#     Ã_l = ½ (A_l + I)                      A_l: the mean over heads; I: the residual connection
#     R   = Ã_L … Ã_2 Ã_1                    every row of R sums to one, as every row of each Ã does
#
# Abnar and Zuidema 2020, section 3 (arXiv:2005.00928), for encoders. Where we differ: a decoder with cross-attention
# C_l has two tables, one over the output so far (P, from I) and one over the source (M, from 0):
#
#     self-attention    P ← Ã_l P,       M ← Ã_l M
#     cross-attention   P ← ½ P,         M ← ½ (M + C_l R)        R: the encoder's rollout
#
# so each row of [P, M] sums to one. Feed-forward layers and the norms of vectors are ignored.


def rollout(layers: Sequence[Float[np.ndarray, "H K K"]]) -> Float[np.ndarray, "K K"]:
    """Return the rollout of self-attention; the first layer comes first."""
    result = np.eye(layers[0].shape[-1])
    for weights in layers:
        result = _with_shortcut(weights) @ result
    return result


def decoder_rollout(
    own: Sequence[Float[np.ndarray, "H T T"]],
    cross: Sequence[Float[np.ndarray, "H T S"]],
    encoder: Float[np.ndarray, "S S"],
) -> tuple[Float[np.ndarray, "T T"], Float[np.ndarray, "T S"]]:
    """Return the rollout of a decoder at each step: over the tokens before it, and over the source."""
    written = np.eye(own[0].shape[-1])
    source = np.zeros(cross[0].shape[-2:])
    for to_self, to_source in zip(own, cross, strict=True):
        step = _with_shortcut(to_self)
        written, source = step @ written / 2, (step @ source + to_source.mean(axis=0) @ encoder) / 2
    return written, source


def _with_shortcut(weights: Float[np.ndarray, "H K K"]) -> Float[np.ndarray, "K K"]:
    return (weights.mean(axis=0) + np.eye(weights.shape[-1])) / 2


# Norm-weighted attention: each weight times the norm of its transformed value.
#
#     y_i = Σ_j α_ij f(x_j),     f(x) = (x W_v + b_v) W_o          shown: ‖α_ij f(x_j)‖ = α_ij ‖f(x_j)‖
#
# Kobayashi et al. 2020, section 3 (arXiv:2004.10102): heads put large weights on tokens with short vectors, and such
# weights have no effect. Where we differ: f and the norm are computed for each head, whereas the paper first sums the
# vectors of all heads; and rows are scaled to sum to one.


def norm_weighted(
    weights: Float[np.ndarray, "H Q K"],
    values: Float[np.ndarray, "H K Dv"],
    output: Float[np.ndarray, "H Dv D"] | None = None,
) -> Float[np.ndarray, "H Q K"]:
    """Return norm-weighted attention. `values`: x W_v + b_v of each head; `output`: its part of W_o, or None."""
    brought = values if output is None else values @ output
    return normalize_rows(weights * np.linalg.norm(brought, axis=-1)[:, None, :])


# Integrated gradients of one attention score: the contribution of each input part.
#
#     e(x) = e(0) + Σ_i x_i · ∫₀¹ ∂e(αx) / ∂x_i dα
#
# Like `integrated_gradients`, for a score instead of an output: contributions of words, regions, frames or steps of the
# input, through all layers and recurrent states. `origins` stops at the states before the score, and is exact.


def score_tokens(case: ExplainTarget, name: str, call: int, head: int, query: int, key: int) -> list[Origin]:
    """Return the contributions to a score; they sum to score and bias. One is the score for zeros."""

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
