"""Path patching: the direct effect of one head on another.

    r(h → g) = (s(corrupted, where g alone reads the clean h) − s(corrupted)) / (s(clean) − s(corrupted))

Wang et al. 2022, section 3.1 (arXiv:2211.00593); Goldowsky-Dill et al. 2023 (arXiv:2304.05969). The stream is a sum, so
"g reads the clean h" means: the difference between the contributions of h in the two runs is added to the input of g's
layer in the corrupted run. All parts between the two heads, and all other heads of g's layer, stay as in the corrupted
run; parts after g are computed again. Only the direct path counts, not the effect of h on g through a third head.

For self-attention of layers with norms first, which read this sum. Both inputs need the same number of tokens.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import accumulate
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.attention.masks import ManyHeads
from regard.attention.score import Recurrence, Role
from regard.errors import CallError
from regard.look.case import ExplainTarget
from regard.look.hooks import After, Before, active_hooks
from regard.look.methods.patching import (
    PatchAnswers,
    PatchedLayer,
    PatchingResult,
    margin,
    modules_run,
    states_of,
    with_margins,
)
from regard.look.records import Kind
from regard.look.stream import StreamLayer


class Paths(NamedTuple):
    """Direct effects. `values`: senders × receivers; zero if a receiver is not in a later layer."""

    kind: Kind
    heads: list[str]
    values: np.ndarray


def patched_paths(clean: ExplainTarget, corrupted: ExplainTarget, kind: Kind | None, row: int | None) -> Paths:
    if kind == "cross":
        raise CallError("kind='cross': by='paths' needs self-attention: kind='encoder' or kind='decoder'")
    kinds: Sequence[Kind] = ("encoder", "decoder") if kind is None else (kind,)
    found: list[tuple[Kind, list[StreamLayer]]] = [(one, _blocks(corrupted, one)) for one in kinds]
    of, blocks = next((pair for pair in found if len(pair[1]) > 1), found[0])
    if len(blocks) < 2:
        raise CallError(f"kind={of!r}: by='paths' needs two layers of self-attention")
    if not all(block.norm_first for block in blocks):
        raise CallError("by='paths' needs layers that normalize first (norm_first=true), whose input is a sum")
    answers, attentions = PatchAnswers(clean, corrupted, row), [cast(ManyHeads, block.attention) for block in blocks]
    numbers = [cast(Role, getattr(one, "role")).layer for one in attentions]  # noqa: B009 (no field of the protocol)
    spoken = [
        PatchedLayer(f"layer {number}", one.out, one.heads, before=True)
        for number, one in zip(numbers, attentions, strict=True)
    ]
    news, olds = ([_said_in(answers, case, layer) for layer in spoken] for case in (clean, corrupted))
    places = [(number, head) for number, one in enumerate(attentions) for head in range(one.heads)]
    names = [f"{of}.{numbers[number]}.{head}" for number, head in places]
    values = np.zeros((len(names), len(names)))
    for s, (layer, head) in enumerate(places):
        told = [_head_difference(attentions[layer], head, new - old) for new, old in _same(news[layer], olds[layer])]
        for r, (later, receiver) in enumerate(places):
            if later > layer:
                with _reading(blocks[later], told), _hold_other_heads(attentions[later], receiver, olds[later]):
                    values[s, r] = answers.share()
    return Paths(of, names, values)


def _blocks(case: ExplainTarget, kind: Kind) -> list[StreamLayer]:
    """Return the layers with self-attention of this kind: of several stacks, the last with two or more layers.

    Only within a stack, a layer reads the sum of the outputs before it.
    """
    stacks: dict[str, list[StreamLayer]] = {}
    for name, module in modules_run(case)[0].items():
        role = getattr(module, "role", None)
        if isinstance(role, Role) and role.kind == kind and role.followed and isinstance(module, ManyHeads):
            block = name.rpartition(".")[0]
            parent = case.model.get_submodule(block)
            if hasattr(parent, "norm_first"):
                stacks.setdefault(block.rpartition(".")[0], []).append(cast(StreamLayer, parent))
    return next((blocks for blocks in reversed(stacks.values()) if len(blocks) > 1), [])


def _said_in(answers: PatchAnswers, case: ExplainTarget, layer: PatchedLayer) -> list[Tensor]:
    """Collect the outputs of the heads of a layer, call by call."""
    return [state[0] for state in states_of(layer, lambda: answers.score(case))]


def _same(news: Sequence[Tensor], olds: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    for new, old in zip(news, olds, strict=True):
        if new.shape != old.shape:
            raise CallError(f"the inputs have {old.shape[-2]} and {new.shape[-2]} positions: both need the same length")
        yield new, old


def _head_difference(attention: ManyHeads, head: int, difference: Tensor) -> Tensor:
    """Return the contribution of the difference of one head to the stream."""
    out = cast(nn.Linear, attention.out)
    own = difference.unflatten(-1, (attention.heads, -1))[..., head, :]
    return own @ out.weight.T.unflatten(0, (attention.heads, -1))[head]


@contextmanager
def _reading(block: StreamLayer, told: Sequence[Tensor]) -> Iterator[None]:
    """Add the difference to the input of the layer's attention only; the stream is unchanged."""
    calls = iter(told)

    def add(module: nn.Module, args: Any) -> Any:
        return (args[0] + next(calls), *args[1:])

    with active_hooks([Before(block.attention_norm, add)]):
        yield


@contextmanager
def _hold_other_heads(attention: ManyHeads, head: int, olds: Sequence[Tensor]) -> Iterator[None]:
    """Fix all heads but one to their outputs in the corrupted run."""
    calls = iter(olds)

    def hold(module: nn.Module, args: Any) -> Any:
        parts = next(calls).unflatten(-1, (attention.heads, -1)).clone()
        parts[..., head, :] = args[0].unflatten(-1, (attention.heads, -1))[..., head, :]
        return (parts.flatten(-2), *args[1:])

    with active_hooks([Before(attention.out, hold)]):
        yield


# Activation patching through time: the share of the difference between two inputs in a recurrent state.
#
#     s_t = f(x_t, s_{t−1})        r(t) = (s(corrupted, where s_t is that of the clean run) − s(corrupted)) / (…)
#
# As in `patching.py`, with the state of one layer after one step instead of a head: s_t is replaced, and everything
# after it is computed again: the layers above at the same step, and all later steps. So a late state also contains what
# was read before it, and shares do not sum to one. An LSTM's cell belongs to its state.
#
# States of an encoder belong to the positions of its input, with a row for each direction; those of a decoder to its
# steps. To replace a state, layers are unrolled cell by cell with the same weights.

State = tuple[Tensor, ...]  # h, and an LSTM's c: (N, D) each
Change = Callable[[int, State], State]  # of the state after a step, by its number


class StateLayer(NamedTuple):
    """One layer of a recurrent module, in one direction. `number`: as torch counts them, directions within layers."""

    name: str
    module: nn.RNNBase
    number: int
    backward: bool


def patched_states(
    clean: ExplainTarget,
    corrupted: ExplainTarget,
    kind: Kind | None,
    row: int | None,
    names: Callable[[Kind, int], list[str]],
) -> PatchingResult:
    """Return the recovered share for each recurrent state: layers × positions of the input, or × steps of the output.

    `names` labels the positions.
    """
    kinds: Sequence[Kind] = ("encoder", "decoder") if kind is None else (kind,)
    ran, _ = modules_run(corrupted)
    found: list[tuple[Kind, list[StateLayer]]] = [(one, state_layers(ran, one)) for one in kinds]
    of, layers = next((pair for pair in found if pair[1]), found[0])
    if not layers:
        raise CallError(
            f"kind={of!r}: no recurrent layer reads this input; for other layers, use by='positions' or by='heads'"
        )
    answers = PatchAnswers(clean, corrupted, row)
    read = [_states_of(layer, answers) for layer in layers]
    most = max(len(one.states) for one in read)  # a layer that merges neighbors has one state for several positions

    def carry(number: int, place: int | None) -> AbstractContextManager[None]:
        layer, one = layers[number], read[number]
        at = None if place is None else place // -(-most // len(one.states))
        return _replace_state(layer, one, one.turned(at) if layer.backward else at)

    values = with_margins(answers, len(layers), most, carry)
    return PatchingResult(of, margin([layer.name for layer in layers]), margin(names(of, most)), values)


def state_layers(modules: Mapping[str, nn.Module], kind: Kind) -> list[StateLayer]:
    found = []
    for name, module in modules.items():
        place = getattr(module, "recurrence", None)
        if not isinstance(place, Recurrence) or not isinstance(module, nn.RNNBase) or place.kind != kind:
            continue
        for number in range(len(module.all_weights)):
            layer, back = divmod(number, 2) if module.bidirectional else (number, 0)
            own = name if module.num_layers == 1 else f"{name} layer {layer}"
            backward = place.backward or bool(back)
            found.append(StateLayer(f"{own} {'←' if backward else '→'}", module, number, backward))
    return found


class _Read(NamedTuple):
    """States of a clean run, and the lengths of its calls: a decoder may run step by step."""

    states: list[State]
    lengths: list[int]

    def turned(self, place: int | None) -> int | None:
        """Return the step at which a layer that reads the reversed input reaches a position."""
        if place is None:
            return None
        ends = list(accumulate(self.lengths))
        call = bisect_right(ends, place)
        return 2 * ends[call] - self.lengths[call] - 1 - place


def _states_of(layer: StateLayer, answers: PatchAnswers) -> _Read:
    own: list[State] = []

    def keep(step: int, state: State) -> State:
        own.append(state)
        return state

    with _unroll(layer, keep) as lengths:
        answers.score(answers.clean)
    return _Read(own, lengths)


@contextmanager
def _replace_state(layer: StateLayer, read: _Read, at: int | None) -> Iterator[None]:
    """Replace the state after step `at`, or after every step, by that of the clean run, while active."""

    def carry(step: int, state: State) -> State:
        return read.states[step] if at in (None, step) and step < len(read.states) else state

    with _unroll(layer, carry) as lengths:
        yield
    if lengths != read.lengths:
        raise CallError(
            f"{layer.name}: {sum(lengths)} steps in the second input and {sum(read.lengths)} in the first; patching "
            "copies states step by step, so both inputs need the same length"
        )


@contextmanager
def _unroll(layer: StateLayer, change: Change) -> Iterator[list[int]]:
    """While active, pass states of this layer through `change`. Yield the lengths of all calls."""
    lengths: list[int] = []

    def again(module: nn.Module, args: Any, output: Any) -> Any:
        x, *given = args
        x, sizes = pad_packed_sequence(x, batch_first=True) if isinstance(x, PackedSequence) else (x, None)
        before = sum(lengths)
        lengths.append(x.shape[1])
        y, last = unroll(
            layer.module, x, given[0] if given else None, layer.number, lambda step, s: change(before + step, s)
        )
        if sizes is not None:
            y = pack_padded_sequence(y, sizes, batch_first=True, enforce_sorted=False)
        return y, last

    with active_hooks([After(layer.module, again)]):
        yield lengths


def unroll(
    module: nn.RNNBase, x: Tensor, state: Any, number: int, change: Change
) -> tuple[Tensor, Tensor | tuple[Tensor, Tensor]]:
    """Run the module cell by cell, with the states of layer `number` passed through `change` after every step."""
    lstm = isinstance(module, nn.LSTM)
    directions = 2 if module.bidirectional else 1
    zeros = x.new_zeros(len(module.all_weights), len(x), module.hidden_size)
    begin = ((zeros, zeros) if lstm else (zeros,)) if state is None else state if lstm else (state,)
    last: list[State] = []
    given, sides = x, []
    for layer, weights in enumerate(module.all_weights):
        if layer % directions == 0:
            given, sides = x, []
        steps = range(x.shape[1]) if layer % directions == 0 else range(x.shape[1] - 1, -1, -1)
        now: State = tuple(part[layer] for part in begin)
        states: dict[int, Tensor] = {}
        for count, place in enumerate(steps):
            at = given[:, place]
            now = torch.lstm_cell(at, now, *weights) if lstm else (torch.gru_cell(at, now[0], *weights),)
            now = change(count, now) if layer == number else now
            states[place] = now[0]
        last.append(now)
        sides.append(torch.stack([states[place] for place in range(x.shape[1])], dim=1))
        x = torch.cat(sides, dim=-1)
    ends = tuple(torch.stack(parts) for parts in zip(*last, strict=True))
    return x, (ends[0], ends[1]) if lstm else ends[0]
