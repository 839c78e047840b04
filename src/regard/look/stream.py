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
from torch import Tensor, nn

from regard.attention.head_mask import ManyHeads
from regard.look.hooks import After, Before, hooked

if TYPE_CHECKING:
    from regard.look.case import Case


class Block(Protocol):
    """A Transformer layer of this package. `cross` may be None."""

    norm_first: bool
    attention: nn.Module
    attention_norm: nn.Module
    cross: nn.Module | None
    cross_norm: nn.Module | None
    feed_forward: nn.Module
    feed_forward_norm: nn.Module


@dataclass(frozen=True)
class Stream:
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
class Written:
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
    written: list[Written]
    tokens: Tensor | None


@torch.no_grad()
def read_stream(case: "Case", stream: Stream) -> Reading:
    """Run the model once over the whole input."""
    states: list[Tensor] = []
    written: list[Written] = []
    tokens: list[Tensor] = []
    with hooked(_hooks(stream, case.row, states, written, tokens)):
        case.ask([frozenset()])
    known = tokens and tokens[0].shape == states[0].shape  # positions may also be concatenated to the vectors
    return Reading(states, written, tokens[0] if known else None)


def _hooks(
    stream: Stream, row: int, states: list[Tensor], written: list[Written], tokens: list[Tensor]
) -> list[Before | After]:
    hooks: list[Before | After] = []

    def enters(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        if not states:
            states.append(args[0][row])

    if stream.positions is not None:
        hooks.append(Before(stream.positions, lambda module, args: tokens.append(args[0][row])))
    for number, layer in enumerate(stream.layers):
        block: Block = layer  # pyright: ignore[reportAssignmentType]
        hooks.append(Before(layer, enters))
        sides = [("decoder", block.attention, block.attention_norm), ("cross", block.cross, block.cross_norm)]
        for kind, attention, norm in sides:
            if attention is None or norm is None:
                continue
            one = Written(kind, number)
            assert isinstance(attention, ManyHeads)
            assert isinstance(attention.out, nn.Linear)
            written.append(one)
            hooks.append(Before(attention.out, _keep_heads(one, attention, row)))
            hooks += _keep_norm(one, block, norm, row)
        one = Written("feed-forward", number)
        written.append(one)
        hooks.append(After(block.feed_forward, _keep_output(one.parts, row)))
        hooks += _keep_norm(one, block, block.feed_forward_norm, row)
        hooks.append(After(layer, _keep_output(states, row)))
    return hooks


def _keep_heads(one: Written, attention: ManyHeads, row: int) -> Callable[..., None]:
    """[head_1; …; head_H] W_o, head by head."""
    out = attention.out
    assert isinstance(out, nn.Linear)

    def keep(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        heads = args[0][row].unflatten(-1, (attention.heads, -1)).transpose(0, 1)  # H T Dv
        maps = out.weight.T.unflatten(0, (attention.heads, -1))  # H Dv D
        one.parts, one.bias = list(heads @ maps), out.bias

    return keep


def _keep_norm(one: Written, block: Block, norm: nn.Module, row: int) -> list[Before | After]:
    if block.norm_first:
        return []

    def keep(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        one.norm, one.before_norm = norm, args[0][row]

    return [Before(norm, keep)]


def _keep_output(kept: list[Tensor], row: int) -> Callable[..., None]:
    def keep(module: nn.Module, args: object, output: Tensor) -> None:
        kept.append(output[row])

    return keep
