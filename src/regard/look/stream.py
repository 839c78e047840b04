"""The residual stream of a Transformer decoder: a sum that each part reads and adds to.

    norm first   x ← x + f(norm(x))      features = final norm(x_0 + Σ f)
    norm last    x ← norm(x + f(x))      features = x: a contribution passes every later norm

    f:  heads of self-attention, heads of cross-attention, feed-forward

Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits". `read_stream` runs the model once
and keeps the state after every layer and the contribution of every part, for `lens`, `logits` and `scores`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.masks import ManyHeads
from regard.errors import CallError
from regard.look.hooks import After, Before, active_hooks

if TYPE_CHECKING:
    from regard.look.case import ExplainTarget


class StreamLayer(Protocol):
    """A Transformer layer of this package. `cross` may be None."""

    norm_first: bool
    attention: nn.Module
    attention_norm: nn.Module
    cross: nn.Module | None
    cross_norm: nn.Module | None
    feed_forward: nn.Module
    feed_forward_norm: nn.Module


@dataclass(frozen=True)
class ResidualStream:
    """The layers of a model and its map from states to token logits: W norm(x) + b.

    answers   the token of each step, T
    words     the names of tokens
    instead   the contrast token: explain the lead over its logit
    positions   the module that adds positions to token vectors; None if there is none, or if another module follows it
    """

    layers: Sequence[nn.Module]
    norm: nn.Module
    output: nn.Linear
    answers: Sequence[int]
    words: Callable[[Sequence[int]], list[str]]
    instead: int | None = None
    positions: nn.Module | None = None


@dataclass
class StreamOutput:
    """One f of one layer: its parts and its bias; the norm after it, if any, and the input of that norm."""

    kind: str
    layer: int
    parts: list[Tensor] = field(default_factory=list)
    bias: Tensor | None = None
    norm: nn.Module | None = None
    before_norm: Tensor | None = None


class Reading(NamedTuple):
    """States and contributions of one pass. `tokens`: the first state before positions were added."""

    states: list[Tensor]  # before the first layer, and after each: T D
    written: list[StreamOutput]
    tokens: Tensor | None


@torch.no_grad()
def read_stream(case: "ExplainTarget", stream: ResidualStream) -> Reading:
    """Run the model once over the whole input."""
    states: list[Tensor] = []
    written: list[StreamOutput] = []
    tokens: list[Tensor] = []
    with active_hooks(_hooks(stream, case.row, states, written, tokens)):
        case.ask([frozenset()])
    known = tokens and tokens[0].shape == states[0].shape  # positions may also be concatenated to the vectors
    return Reading(states, written, tokens[0] if known else None)


def _hooks(
    stream: ResidualStream, row: int, states: list[Tensor], written: list[StreamOutput], tokens: list[Tensor]
) -> list[Before | After]:
    hooks: list[Before | After] = []

    def enters(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        if not states:
            states.append(args[0][row])

    if stream.positions is not None:
        hooks.append(Before(stream.positions, lambda module, args: tokens.append(args[0][row])))
    for number, layer in enumerate(stream.layers):
        block: StreamLayer = layer  # pyright: ignore[reportAssignmentType]
        hooks.append(Before(layer, enters))
        sides = [("decoder", block.attention, block.attention_norm), ("cross", block.cross, block.cross_norm)]
        for kind, attention, norm in sides:
            if attention is None or norm is None:
                continue
            one = StreamOutput(kind, number)
            assert isinstance(attention, ManyHeads)
            assert isinstance(attention.out, nn.Linear)
            written.append(one)
            hooks.append(Before(attention.out, _keep_heads(one, attention, row)))
            hooks += _keep_norm(one, block, norm, row)
        one = StreamOutput("feed-forward", number)
        written.append(one)
        hooks.append(After(block.feed_forward, _keep_output(one.parts, row)))
        hooks += _keep_norm(one, block, block.feed_forward_norm, row)
        hooks.append(After(layer, _keep_output(states, row)))
    return hooks


def _keep_heads(one: StreamOutput, attention: ManyHeads, row: int) -> Callable[..., None]:
    """[head_1; …; head_H] W_o, head by head."""
    out = attention.out
    assert isinstance(out, nn.Linear)

    def keep(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        heads = args[0][row].unflatten(-1, (attention.heads, -1)).transpose(0, 1)  # H T Dv
        maps = out.weight.T.unflatten(0, (attention.heads, -1))  # H Dv D
        one.parts, one.bias = list(heads @ maps), out.bias

    return keep


def _keep_norm(one: StreamOutput, block: StreamLayer, norm: nn.Module, row: int) -> list[Before | After]:
    if block.norm_first:
        return []

    def keep(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        one.norm, one.before_norm = norm, args[0][row]

    return [Before(norm, keep)]


def _keep_output(kept: list[Tensor], row: int) -> Callable[..., None]:
    def keep(module: nn.Module, args: object, output: Tensor) -> None:
        kept.append(output[row])

    return keep


# The residual stream as a sum of contributions, at any layer, with fixed norms.
#
#     x_l = token + position + Σ_{parts before layer l} a_j + biases         norm(x) = S x + β,  S x = Σ_j S a_j
#
# S is the norm as a linear map: x − mean(x) over the deviation of the whole sum, times γ (RMS norm: no mean, no β).


class Part(NamedTuple):
    """A contribution to the stream: `decoder.2.3` is head 3 of layer 2. Head −1: parts without heads."""

    kind: str
    layer: int
    head: int
    added: Tensor  # T D

    @property
    def name(self) -> str:
        if self.layer < 0:
            return self.kind
        return f"{self.kind}.{self.layer}" + ("" if self.head < 0 else f".{self.head}")


def stream_parts(reading: Reading, layer: int) -> tuple[list[Part], Float[Tensor, "T D"]]:
    """Return the contributions to the state before this layer (or after the last), and biases."""
    start, tokens = reading.states[0], reading.tokens
    parts = [Part("token", -1, -1, start if tokens is None else tokens)]
    if tokens is not None:
        parts.append(Part("position", -1, -1, start - tokens))
    bias = torch.zeros_like(start)
    for one in reading.written:
        if one.layer >= layer:
            break
        heads = [-1] if one.kind == "feed-forward" else range(len(one.parts))
        parts += [Part(one.kind, one.layer, head, x) for head, x in zip(heads, one.parts, strict=True)]
        bias = bias if one.bias is None else bias + one.bias
        if one.norm is not None and one.before_norm is not None:
            parts, bias = through(one.norm, one.before_norm, parts, bias)
    return parts, bias


def through(
    norm: nn.Module, whole: Float[Tensor, "T D"], parts: Sequence[Part], bias: Float[Tensor, "T D"]
) -> tuple[list[Part], Float[Tensor, "T D"]]:
    """Apply the norm of the whole sum to each part; β is one of the biases."""
    if isinstance(norm, nn.Identity):
        return list(parts), bias
    if isinstance(norm, nn.LayerNorm):
        scale = (whole.var(-1, correction=0, keepdim=True) + norm.eps).rsqrt()
        scale = scale if norm.weight is None else scale * norm.weight
        found = [part._replace(added=(part.added - part.added.mean(-1, keepdim=True)) * scale) for part in parts]
        bias = (bias - bias.mean(-1, keepdim=True)) * scale
        return found, bias if norm.bias is None else bias + norm.bias
    if isinstance(norm, nn.RMSNorm):
        eps = torch.finfo(whole.dtype).eps if norm.eps is None else norm.eps
        scale = (whole.square().mean(-1, keepdim=True) + eps).rsqrt()
        scale = scale if norm.weight is None else scale * norm.weight
        return [part._replace(added=part.added * scale) for part in parts], bias * scale
    raise CallError(f"a norm of class {type(norm).__name__} cannot be taken apart: LayerNorm and RMSNorm can")
