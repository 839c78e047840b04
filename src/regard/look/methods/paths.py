"""Path patching: the direct effect of one head on another.

    r(h → g) = (s(corrupted, where g alone reads the clean h) − s(corrupted)) / (s(clean) − s(corrupted))

Wang et al. 2022, section 3.1 (arXiv:2211.00593); Goldowsky-Dill et al. 2023 (arXiv:2304.05969). The stream is a sum, so
"g reads the clean h" is plain: to what g's layer reads of the corrupted run, the difference of what h adds in the two
runs is added. All that lies between the two heads, and all other heads of g's layer, stay as in the corrupted run; all
that comes after g runs on. Only the direct path counts: what h tells g through a third head does not.

Self-attention of layers with norms first, where that sum is what a layer reads. Both inputs need as many tokens.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import numpy as np
from torch import Tensor, nn

from regard.attention.head_mask import ManyHeads
from regard.attention.role import Role
from regard.errors import CallError
from regard.look.case import Case
from regard.look.hooks import Before, hooked
from regard.look.methods.carrying import Answers, modules_run
from regard.look.methods.patching import Layer, states_of
from regard.look.records import Kind
from regard.look.stream import Block


class Paths(NamedTuple):
    """`values`: senders × receivers; zero where a receiver does not lie after its sender."""

    kind: Kind
    heads: list[str]
    values: np.ndarray


def patched_paths(clean: Case, corrupted: Case, kind: Kind | None, row: int | None) -> Paths:
    if kind == "cross":
        raise CallError("kind='cross': by='paths' goes along self-attention: encoder or decoder")
    kinds: Sequence[Kind] = ("encoder", "decoder") if kind is None else (kind,)
    found: list[tuple[Kind, list[Block]]] = [(one, _blocks(corrupted, one)) for one in kinds]
    of, blocks = next((pair for pair in found if len(pair[1]) > 1), found[0])
    if len(blocks) < 2:
        raise CallError(f"kind={of!r}: by='paths' goes from head to head, which takes two layers of self-attention")
    if not all(block.norm_first for block in blocks):
        raise CallError("by='paths' takes layers that normalize first (norm_first=true): what they read is a sum")
    answers, attentions = Answers(clean, corrupted, row), [cast(ManyHeads, block.attention) for block in blocks]
    numbers = [cast(Role, getattr(one, "role")).layer for one in attentions]  # noqa: B009 (no field of the protocol)
    spoken = [
        Layer(f"layer {number}", one.out, one.heads, before=True)
        for number, one in zip(numbers, attentions, strict=True)
    ]
    news, olds = ([_said_in(answers, case, layer) for layer in spoken] for case in (clean, corrupted))
    places = [(number, head) for number, one in enumerate(attentions) for head in range(one.heads)]
    names = [f"{of}.{numbers[number]}.{head}" for number, head in places]
    values = np.zeros((len(names), len(names)))
    for s, (layer, head) in enumerate(places):
        told = [_said(attentions[layer], head, new - old) for new, old in _same(news[layer], olds[layer])]
        for r, (later, receiver) in enumerate(places):
            if later > layer:
                with _reading(blocks[later], told), _alone(attentions[later], receiver, olds[later]):
                    values[s, r] = answers.share()
    return Paths(of, names, values)


def _blocks(case: Case, kind: Kind) -> list[Block]:
    """The layers with self-attention of this kind: of several stacks of layers, the last one of two at least, as only
    within a stack a layer reads the sum of what came before."""
    stacks: dict[str, list[Block]] = {}
    for name, module in modules_run(case)[0].items():
        role = getattr(module, "role", None)
        if isinstance(role, Role) and role.kind == kind and role.followed and isinstance(module, ManyHeads):
            block = name.rpartition(".")[0]
            parent = case.model.get_submodule(block)
            if hasattr(parent, "norm_first"):
                stacks.setdefault(block.rpartition(".")[0], []).append(cast(Block, parent))
    return next((blocks for blocks in reversed(stacks.values()) if len(blocks) > 1), [])


def _said_in(answers: Answers, case: Case, layer: Layer) -> list[Tensor]:
    """Collect the outputs of the heads of a layer, call by call."""
    return [state[0] for state in states_of(layer, lambda: answers.score(case))]


def _same(news: Sequence[Tensor], olds: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    for new, old in zip(news, olds, strict=True):
        if new.shape != old.shape:
            raise CallError(
                f"{old.shape[-2]} positions here and {new.shape[-2]} there: both inputs need the same length"
            )
        yield new, old


def _said(attention: ManyHeads, head: int, difference: Tensor) -> Tensor:
    """Return the contribution of the difference of one head to the stream."""
    out = cast(nn.Linear, attention.out)
    own = difference.unflatten(-1, (attention.heads, -1))[..., head, :]
    return own @ out.weight.T.unflatten(0, (attention.heads, -1))[head]


@contextmanager
def _reading(block: Block, told: Sequence[Tensor]) -> Iterator[None]:
    """Add the difference to the input of the layer's attention only; the stream is unchanged."""
    calls = iter(told)

    def add(module: nn.Module, args: Any) -> Any:
        return (args[0] + next(calls), *args[1:])

    with hooked([Before(block.attention_norm, add)]):
        yield


@contextmanager
def _alone(attention: ManyHeads, head: int, olds: Sequence[Tensor]) -> Iterator[None]:
    """Fix all heads but one to their outputs in the corrupted run."""
    calls = iter(olds)

    def hold(module: nn.Module, args: Any) -> Any:
        parts = next(calls).unflatten(-1, (attention.heads, -1)).clone()
        parts[..., head, :] = args[0].unflatten(-1, (attention.heads, -1))[..., head, :]
        return (parts.flatten(-2), *args[1:])

    with hooked([Before(attention.out, hold)]):
        yield
