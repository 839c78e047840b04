"""What a recurrent state carries of the difference between two inputs: activation patching through time.

    s_t = f(x_t, s_{t−1})        r(t) = (s(corrupted, where s_t is that of the clean run) − s(corrupted)) / (…)

As `patching`, with the state of one layer after one step in the place of a head: s_t is exchanged, and all that comes
after it runs on from there: the layers above at the same step, and all later steps. So a state near the end of a
reading carries what was read before it, too, and shares do not add up. An LSTM's cell belongs to its state.

States of an encoder stand at the positions of its input, one row for each direction; those of a decoder at its steps.
To be exchanged in the middle, layers are unrolled cell by cell, with the weights that they have.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.attention.role import Recurrence
from regard.errors import CallError
from regard.look.case import Case
from regard.look.hooks import After, hooked
from regard.look.methods.patching import Answers, Patched
from regard.look.records import Kind

State = tuple[Tensor, ...]  # h, and an LSTM's c: N D each
Change = Callable[[int, State], State]  # of the state after a step, by its number


class StateLayer(NamedTuple):
    """One layer of a recurrent module, in one direction. `number`: as torch counts them, directions within layers."""

    name: str
    module: nn.RNNBase
    number: int
    backward: bool


def patched_states(clean: Case, corrupted: Case, kind: Kind | None, row: int | None) -> Patched:
    """What each recurrent state brings back: layers × positions of the input, or × steps of the output."""
    kinds: Sequence[Kind] = ("encoder", "decoder") if kind is None else (kind,)
    found: list[tuple[Kind, list[StateLayer]]] = [(one, state_layers(corrupted.model, one)) for one in kinds]
    of, layers = next((pair for pair in found if pair[1]), found[0])
    if not layers:
        raise CallError(f"kind={of!r}: there is no recurrent layer; by='positions' and by='heads' ask about others")
    answers = Answers(clean, corrupted, row)
    rows = [_recovered(answers, layer) for layer in layers]
    most = max(map(len, rows))  # where a layer joins its neighbors, one state stands for several
    values = np.stack([np.repeat(one, -(-most // len(one)))[:most] for one in rows])
    return Patched(of, [layer.name for layer in layers], values)


def state_layers(model: nn.Module, kind: Kind) -> list[StateLayer]:
    found = []
    for name, module in model.named_modules():
        place = getattr(module, "recurrence", None)
        if not isinstance(place, Recurrence) or not isinstance(module, nn.RNNBase) or place.kind != kind:
            continue
        for number in range(len(module.all_weights)):
            layer, back = divmod(number, 2) if module.bidirectional else (number, 0)
            own = name if module.num_layers == 1 else f"{name} layer {layer}"
            backward = place.backward or bool(back)
            found.append(StateLayer(f"{own} {'←' if backward else '→'}", module, number, backward))
    return found


def _recovered(answers: Answers, layer: StateLayer) -> np.ndarray:
    """Of each position. The steps of all calls are counted through: a decoder may take them one by one."""
    own: list[State] = []

    def keep(step: int, state: State) -> State:
        own.append(state)
        return state

    with _unrolled(layer, keep) as calls:
        answers.score(answers.clean)
    there = list(calls)
    if not own:
        raise CallError(f"{layer.name} does not read this input: by='positions' and by='heads' ask about other layers")
    values = np.zeros(len(own))
    for place in range(len(own)):

        def carry(step: int, state: State, place: int = place) -> State:
            return own[place] if step == place else state

        with _unrolled(layer, carry) as calls:
            values[place] = answers.share()
        if calls != there:
            raise CallError(
                f"{layer.name}: {sum(calls)} steps here and {sum(there)} there; states are carried from one input into "
                "the other step by step, so both inputs need the same length"
            )
    if not layer.backward:
        return values
    ends = np.cumsum(there)
    return np.concatenate([values[end - size : end][::-1] for end, size in zip(ends, there, strict=True)])


@contextmanager
def _unrolled(layer: StateLayer, change: Change) -> Iterator[list[int]]:
    """While it is active, states of this layer go through `change`. Gives the lengths of all calls."""
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

    with hooked([After(layer.module, again)]):
        yield lengths


def unroll(
    module: nn.RNNBase, x: Tensor, state: Any, number: int, change: Change
) -> tuple[Tensor, Tensor | tuple[Tensor, Tensor]]:
    """What the module gives, cell by cell; the states of its layer `number` go through `change` after every step."""
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
