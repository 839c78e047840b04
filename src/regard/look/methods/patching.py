"""What a part of a model carries of the difference between two inputs: activation patching.

    r = (s(corrupted, with one state of the clean run) − s(corrupted)) / (s(clean) − s(corrupted))

s is what the model thinks of the answer (log p, summed over its steps, or of one step). 1: this state alone brings the
answer back; 0: it carries nothing of what matters; below zero: it speaks against the answer. The states:

    heads       what a head says, at all positions, before W_o mixes it with the others
    positions   the vector that a layer leaves at one position; or that the encoder leaves in its memory, of whatever
                kind the encoder is
    states      those of recurrent layers, step by step: `states`

Vig et al. 2020, section 3 (arXiv:2004.12265); Meng et al. 2022, section 2.1 (arXiv:2202.05262); Zhang and Nanda 2023
(arXiv:2309.16042) on what can go wrong. Shares need not add up to one: two heads may do the same, or only together.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.head_mask import ManyHeads
from regard.attention.memory import Memory
from regard.attention.role import Role
from regard.errors import CallError
from regard.look.case import WHOLE, Case
from regard.look.hooks import After, Before, hooked
from regard.look.records import ORDER, Kind

MEMORY = "memory"  # the name of its row
SAME = 1e-4  # a smaller difference of two answers has nothing to bring back


class Layer(NamedTuple):
    """Where a state is carried from one run into the other."""

    name: str
    module: nn.Module
    heads: int = 0
    before: bool = False  # the state is what the module is given, not what it gives


class Patched(NamedTuple):
    """`values`: layers × heads, or layers × positions."""

    kind: Kind
    layers: list[str]
    values: np.ndarray


def patched_heads(clean: Case, corrupted: Case, kind: Kind | None, row: int | None) -> Patched:
    """What each head brings back."""
    kind, layers = _first(kind, ORDER, lambda one: _heads(corrupted.model, one))
    if not layers:
        raise CallError(f"kind={kind!r}: there is no attention with heads; by='positions' or 'states' may show more")
    answers = Answers(clean, corrupted, row)
    most = max(layer.heads for layer in layers)
    found = np.zeros((len(layers), most))
    for number, layer in enumerate(layers):
        states = answers.states_of(layer)
        for head in range(layer.heads):

            def carry(old: Tensor, new: Tensor, head: int = head, heads: int = layer.heads) -> Tensor:
                parts = old.unflatten(-1, (heads, -1)).clone()
                parts[..., head, :] = new.unflatten(-1, (heads, -1))[..., head, :]
                return parts.flatten(-2)

            found[number, head] = answers.recovered(layer, states, carry)
    return Patched(kind, [layer.name for layer in layers], found)


def patched_positions(clean: Case, corrupted: Case, kind: Kind | None, row: int | None) -> Patched:
    """What the vector at each position brings back."""
    kind, layers = _first(kind, ("encoder", "decoder"), lambda one: _layers(corrupted, one))
    if not layers:
        raise CallError(f"kind={kind!r}: this model has no layers whose states could be carried over, nor a memory")
    answers = Answers(clean, corrupted, row)
    rows = []
    for layer in layers:
        states = answers.states_of(layer)
        length = states[0].shape[-2]
        values = np.zeros(length)
        for place in range(length):

            def carry(old: Tensor, new: Tensor, place: int = place) -> Tensor:
                changed = old.clone()
                changed[..., place, :] = new[..., place, :]
                return changed

            values[place] = answers.recovered(layer, states, carry)
        rows.append(values)
    if len(rows) > 1 and layers[-1].name == MEMORY and len(rows[-1]) != len(rows[0]):  # a class token is not kept there
        rows, layers = rows[:-1], layers[:-1]
    if len({len(values) for values in rows}) > 1:
        raise CallError("the layers of this encoder see other grids, which have no positions in common")
    return Patched(kind, [layer.name for layer in layers], np.stack(rows))


def _first(
    kind: Kind | None, kinds: Sequence[Kind], layers_of: Callable[[Kind], list[Layer]]
) -> tuple[Kind, list[Layer]]:
    """Of the kind that was asked for, or of the first that there is."""
    wanted: Sequence[Kind] = kinds if kind is None else (kind,)
    found: list[tuple[Kind, list[Layer]]] = [(one, layers_of(one)) for one in wanted]
    return next((pair for pair in found if pair[1]), found[0])


def _heads(model: nn.Module, kind: Kind) -> list[Layer]:
    layers: dict[int, Layer] = {}
    for module in model.modules():
        role = getattr(module, "role", None)
        if isinstance(role, Role) and role.kind == kind and isinstance(module, ManyHeads):
            layers[role.layer] = Layer(f"layer {role.layer}", module.out, module.heads, before=True)
    return [layers[number] for number in sorted(layers)]


def has_heads(model: nn.Module, kind: Kind | None = None) -> bool:
    return any(_heads(model, one) for one in ORDER if kind in (None, one))


def _layers(case: Case, kind: Kind) -> list[Layer]:
    """The layers that attentions of this kind stand in; for an encoder, and what it leaves in its memory."""
    modules = dict(case.model.named_modules())
    layers: dict[int, nn.Module] = {}
    for name, module in modules.items():
        role = getattr(module, "role", None)
        if isinstance(role, Role) and role.kind == kind and role.followed and "." in name:
            layers[role.layer] = modules[name.rpartition(".")[0]]
    leaving, memory = _leaving_vectors(case)
    found = [Layer(f"layer {number}", layers[number]) for number in sorted(layers) if layers[number] in leaving]
    if found:
        found.insert(0, Layer("embedding", found[0].module, before=True))
    if kind == "encoder" and memory is not None:
        found.append(Layer(MEMORY, memory))
    return found


def _leaving_vectors(case: Case) -> tuple[set[nn.Module], nn.Module | None]:
    """The modules that leave a vector at each position, and the outermost of those that leave a memory."""
    leaving, memories = set[nn.Module](), list[nn.Module]()

    def note(module: nn.Module, args: Any, output: Any) -> None:
        if isinstance(output, Memory):
            memories.append(module)
        elif isinstance(output, Tensor) and output.ndim > 2:
            leaving.add(module)

    with torch.no_grad(), hooked(After(module, note) for module in case.model.modules()):
        case.ask([WHOLE])
    return leaving, memories[-1] if memories else None


class Answers:
    """What the model thinks of one answer by two inputs, and by the second with states of the first."""

    def __init__(self, clean: Case, corrupted: Case, row: int | None) -> None:
        self.clean, self.corrupted, self.row = clean, corrupted, row
        self.top, self.bottom = self.score(clean), self.score(corrupted)
        if abs(self.top - self.bottom) < SAME:
            raise CallError(
                f"the model thinks the same of this answer by both inputs ({self.top:.4f}): there is nothing to bring "
                "back; give one that differs in something that matters"
            )

    def states_of(self, layer: Layer, *, of_clean: bool = True) -> list[Tensor]:
        """In the clean run, or in the other: one for each call of the module."""
        states: list[Tensor] = []

        def keep(state: Tensor) -> Tensor:
            states.append(state.detach())
            return state

        with _changing(layer, keep):
            self.score(self.clean if of_clean else self.corrupted)
        return states

    def share(self) -> float:
        """What comes back of the answer by the second input, as the model is now."""
        return (self.score(self.corrupted) - self.bottom) / (self.top - self.bottom)

    def recovered(self, layer: Layer, states: Sequence[Tensor], carry: Callable[[Tensor, Tensor], Tensor]) -> float:
        calls = iter(states)

        def change(state: Tensor) -> Tensor:
            new = next(calls, None)
            if new is None or new.shape != state.shape:
                there = "no" if new is None else new.shape[-2]
                raise CallError(
                    f"{layer.name}: {state.shape[-2]} positions here and {there} there; states are carried from one "
                    "input into the other position by position, so both inputs need the same length"
                )
            return carry(state, new)

        with _changing(layer, change):
            return self.share()

    def score(self, case: Case) -> float:
        with torch.no_grad():
            steps = case.ask([WHOLE])[0]
        return float(steps.sum() if self.row is None else steps[self.row])


@contextmanager
def _changing(layer: Layer, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    def given(module: nn.Module, args: Any) -> Any:
        return (change(args[0]), *args[1:])

    def gave(module: nn.Module, args: Any, output: Any) -> Any:
        if isinstance(output, Memory):
            return replace(output, vectors=change(output.vectors))
        return change(output)

    with hooked([Before(layer.module, given) if layer.before else After(layer.module, gave)]):
        yield
