"""Contributions of the parts of a query and a key to their attention score.

    e = a · q + b · k            q = Σ_i q_i,  k = Σ_j k_j            e = Σ_i a · q_i + Σ_j b · k_j

q_i and k_j are the summands of query and key: the token, its position, heads and feed-forwards of earlier layers
(Elhage et al. 2021, "QK circuits"), recurrent states in both directions, and biases, which are the same for all inputs.

    dot form     e = s q · k, exactly:  a = s k / 2, b = s q / 2: half of each product belongs to each side
    tanh form    e = w · tanh(u), u = q + k:  a = b = w ∘ tanh(u) / u, linear with a constant slope
    cosine       lengths are constants, like the norms between a part and a query or a key
    rotary       rotates each part like the whole; a bias by distance is a separate part

All other operations in between have the rules of AttnLRP (`attnlrp`), so the parts sum to the score.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from regard.attention import (
    Bilinear,
    Dot,
    Learned,
    LearnedGrid,
    Memory,
    MultiHead,
    ScaledDot,
    Sinusoidal,
    SinusoidalGrid,
    Trace,
)
from regard.attention.masks import ManyHeads
from regard.attention.multihead import split_heads
from regard.attention.positions import LearnedTextAndGrid
from regard.attention.score import Recurrence, Role
from regard.errors import CallError
from regard.look.case import WHOLE, ExplainTarget
from regard.look.hooks import After, Before, active_hooks
from regard.look.methods.attnlrp import PropagationRules, freeze_weights
from regard.look.stream import Reading, StreamLayer, stream_parts, through

POSITIONS = (Sinusoidal, Learned, SinusoidalGrid, LearnedGrid, LearnedTextAndGrid)


class Origin(NamedTuple):
    """A part of a score. `side`: query, key or both; `kind`: token, position, head, feed-forward, state, …"""

    side: str
    kind: str
    name: str
    value: float

    @property
    def told(self) -> str:
        return self.name if self.side == "both" else f"{self.side}: {self.name}"


class Leaf(NamedTuple):
    """A part as a leaf of the gradients. `heads`: the number of heads that it concatenates."""

    kind: str
    name: str
    leaf: Tensor
    heads: int = 0

    def values(self, felt: Tensor) -> list[tuple[str, float]]:
        """Return the contribution by this gradient, for each head."""
        product = (self.leaf.detach() * felt).double()
        if not self.heads:
            return [(self.name, float(product.sum()))]
        by_head = product.unflatten(-1, (self.heads, -1)).sum(-1).flatten(0, -2).sum(0)
        return [(f"{self.name}.{head}", value) for head, value in enumerate(by_head.tolist())]


def score_origins(case: ExplainTarget, name: str, call: int, head: int, query: int, key: int) -> list[Origin]:
    """Return the contributions to one score of the attention `name`, in one call. They sum to score and bias."""
    with torch.enable_grad(), freeze_weights(case.model), torch.backends.cudnn.flags(enabled=False), PropagationRules():
        with _cutting(case.model, name) as cuts, Trace(case.model, scores=True) as seen:
            case.ask([WHOLE])
        scoring, weights = seen.scorings(name)[call], seen.calls(name)[call]
        row = scoring.row(weights if weights.ndim == 4 else weights.unsqueeze(1), case.row, head, query)
        pair = row.with_key(key)
        q, k = pair.query.detach(), pair.key.detach()
        if scoring.together:  # its form is transposed: the querying side is the key of the score
            slopes = scoring.score.slopes(pair._replace(query=k, key=q))[::-1]
        else:
            slopes = scoring.score.slopes(pair._replace(query=q, key=k))
        totals = [slope.float() @ x[0].float() for slope, x in zip(slopes, (pair.query, pair.key), strict=True)]
    found = [part for side, total in zip(("query", "key"), totals, strict=True) for part in _side(side, total, cuts)]
    if row.bias is not None:
        found.append(Origin("both", "distance", "distance", float(row.bias[key])))
    return found


def _side(side: str, total: Tensor, cuts: list[Leaf]) -> list[Origin]:
    sums: dict[tuple[str, str], float] = {}
    if total.requires_grad:
        felt = torch.autograd.grad(total, [cut.leaf for cut in cuts], allow_unused=True, retain_graph=True)
        for cut, own in zip(cuts, felt, strict=True):
            if own is not None:
                for name, value in cut.values(own):
                    sums[cut.kind, name] = sums.get((cut.kind, name), 0.0) + value
    rest = float(total) - sum(sums.values())
    return [*(Origin(side, *what, value) for what, value in sums.items()), Origin(side, "bias", "bias", rest)]


@contextmanager
def _cutting(model: nn.Module, asked: str) -> Iterator[list[Leaf]]:
    """Replace every contribution to a stream and every recurrent state by a leaf, while active.

    The first vectors are a leaf only if nothing before them is: a token at its positions, else at the first layer or in
    a memory; else the inputs of the attention.
    """
    cuts: list[Leaf] = []

    def leaf(kind: str, name: str, x: Tensor, heads: int = 0) -> Tensor:
        cuts.append(Leaf(kind, name, x.detach().requires_grad_(), heads))
        return cuts[-1].leaf

    def first(x: Tensor, kind: str, name: str) -> Tensor:
        return x if x.requires_grad or not x.is_floating_point() else leaf(kind, name, x)

    def placed(x: Tensor, y: Tensor) -> Tensor:
        wide = F.pad(x, (0, y.shape[-1] - x.shape[-1]))  # positions may be concatenated to the vectors
        return F.pad(first(x, "token", "token"), (0, y.shape[-1] - x.shape[-1])) + leaf(
            "position", "position", (y - wide).detach()
        )

    def states(name: str, output: Any) -> Any:
        y, last = output
        if isinstance(y, PackedSequence):
            y = y._replace(data=leaf("state", name, y.data))
        else:
            y = leaf("state", name, y)
        ends = last if isinstance(last, tuple) else (last,)
        given = tuple(leaf("state", name, one) for one in ends)
        return y, given if isinstance(last, tuple) else given[0]

    def memory(output: Any) -> Any:
        if not isinstance(output, Memory) or output.vectors.requires_grad:
            return output
        return replace(output, vectors=leaf("vector", "memory", output.vectors))

    hooks: list[Before | After] = []

    def after(module: nn.Module, change: Callable[[Any, Any], Any]) -> None:
        hooks.append(After(module, lambda _, args, y: change(args, y)))

    def before(module: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
        hooks.append(
            Before(module, lambda _, args: tuple(change(one) if isinstance(one, Tensor) else one for one in args))
        )

    for name, module in model.named_modules():
        many = _many_heads(module)
        if isinstance(module, POSITIONS):
            after(module, lambda args, y: placed(args[0], y))
        elif isinstance(module, nn.RNNBase):
            after(module, lambda args, y, name=name, module=module: states(_direction(name, module), y))
        elif many is not None:
            place = _place(module, name)
            before(many.out, lambda x, place=place, heads=many.heads: leaf("head", place, x, heads))
        elif hasattr(module, "feed_forward_norm"):
            block = cast(StreamLayer, module)
            place = _place(block.attention, name)
            before(module, lambda x: first(x, "token", "token"))
            after(block.feed_forward, lambda args, y, place=place: leaf("feed-forward", f"feed-forward {place}", y))
        if name == asked and not isinstance(module, MultiHead):
            before(module, lambda x: first(x, "vector", "vector"))
        after(module, lambda args, y: memory(y))
    with active_hooks(hooks):
        yield cuts


def _many_heads(module: nn.Module) -> ManyHeads | None:
    return module if isinstance(module, ManyHeads) else None


def _place(attention: nn.Module, name: str) -> str:
    role = getattr(attention, "role", None)
    return f"{role.kind}.{role.layer}" if isinstance(role, Role) else name


def _direction(name: str, module: nn.RNNBase) -> str:
    place = getattr(module, "recurrence", None)
    if module.bidirectional:
        return f"{name} ↔"
    return f"{name} ←" if isinstance(place, Recurrence) and place.backward else f"{name} →"


# Decompose the score of a query and a key.
#
#     e_tj = q_t · k_j / √d = Σ_a Σ_b (W_q S a_t) · (W_k S b_j) / √d        A_t = softmax(e_t)
#
# a and b are the summands of the states at t and at j (`look/stream.py`): the token, its position, heads and
# feed-forwards of the layers before, biases. Either the query or the key is decomposed, and the other one stays whole.
# Rotary positions rotate each part like the whole; a bias by distance is a separate part. Elhage et al. 2021 ("QK
# circuits"). For scores that are linear in both: dot, scaled dot and bilinear. With constant norms, the parts sum
# exactly to the score.

Side = Literal["keys", "queries"]


@torch.no_grad()
def score_parts(
    reading: Reading, block: StreamLayer, layer: int, head: int, row: int, side: Side, *, each_head: bool = False
) -> tuple[list[str], Float[Tensor, "P K"]]:
    """Return the names of the parts, and the contribution of each to the scores of a query with all keys.

    Heads of a layer are one part, or one each.
    """
    attention = block.attention
    if not isinstance(attention, MultiHead) or not isinstance(attention.score, Dot | ScaledDot | Bilinear):
        raise CallError("explain='scores' needs scores that are linear in query and key: dot, scaled_dot or bilinear")
    parts, bias = stream_parts(reading, layer)
    if block.norm_first:
        parts, bias = through(block.attention_norm, reading.states[layer], parts, bias)
    whole = bias + torch.stack([part.added for part in parts]).sum(0)
    grouped: dict[str, Tensor] = {}
    for part in parts:
        name = part.name if each_head or part.layer < 0 else f"{part.kind}.{part.layer}"
        grouped[name] = grouped[name] + part.added if name in grouped else part.added
    apart = torch.stack([*grouped.values(), bias])  # (P, T, D)
    own = _vectors(attention, head, apart, side == "keys")
    own[-1] = _vectors(attention, head, bias[None], side == "keys", bias=True)[0]  # with the bias of the projection
    fixed = _vectors(attention, head, whole[None], side != "keys", bias=True)
    if side == "keys":
        scores = attention.score(fixed[:, [row]], own)[:, 0]
    else:
        scores = attention.score(own[:, [row]], fixed)[:, 0]
    names = [*grouped, "bias"]
    if attention.relative is not None:
        T = scores.shape[-1]
        scores, names = torch.cat([scores, attention.relative(T, T)[head, [row]]]), [*names, "distance"]
    return names, scores[:, : row + 1]


def _vectors(
    attention: MultiHead, head: int, x: Float[Tensor, "P T D"], key: bool, *, bias: bool = False
) -> Float[Tensor, "P T d"]:
    """Return the queries or keys of one head."""
    queries, keys, _ = attention.sizes
    begin, size = (queries, keys) if key else (0, queries)
    weight = attention.project.weight[begin : begin + size]
    offset = attention.project.bias[begin : begin + size] if bias and attention.project.bias is not None else None
    heads = split_heads(F.linear(x, weight, offset), attention.kv_heads if key else attention.heads)
    turned = heads if attention.rotary is None else attention.rotary(heads)
    return turned[:, head * attention.kv_heads // attention.heads if key else head]
