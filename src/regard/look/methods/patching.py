"""Activation patching: the share of the difference between two inputs in one state of a model.

    r = (s(corrupted, with one state of the clean run) − s(corrupted)) / (s(clean) − s(corrupted))

s is what the model thinks of the answer (log p, summed over its steps, or of one step). 1: this state alone brings the
answer back; 0: it carries nothing of what matters; below zero: it speaks against the answer. The states:

    heads       what a head says, at all positions, before W_o mixes it with the others
    positions   the vector that a layer leaves at one position; or that the encoder leaves in its memory, of whatever
                kind the encoder is, and the vector by which it sums up (a ViT's class token is that in all its layers)
    states      those of recurrent layers, step by step: `states`

Vig et al. 2020, section 3 (arXiv:2004.12265); Meng et al. 2022, section 2.1 (arXiv:2202.05262); Zhang and Nanda 2023
(arXiv:2309.16042) on what can go wrong. Shares need not add up to one: two heads may do the same, or only together. So
there are margins, of what is carried at once.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor, nn

from regard.attention.head_mask import ManyHeads
from regard.attention.memory import Memory
from regard.attention.role import Role
from regard.errors import CallError
from regard.look.case import Case
from regard.look.hooks import After, Before, hooked
from regard.look.methods.carrying import Answers, Patched, margin, modules_run, with_margins
from regard.look.records import ORDER, Kind

SUMMARY = "summary"
State = tuple[Tensor, ...]  # B … D; of a memory, its vectors and its summary


class Layer(NamedTuple):
    """Where a state is carried from one run into the other."""

    name: str
    module: nn.Module
    heads: int = 0
    before: bool = False  # the state is what the module is given, not what it gives


def patched_heads(clean: Case, corrupted: Case, kind: Kind | None, row: int | None) -> Patched:
    """Return the recovered share for each head."""
    kind, layers = _first(kind, ORDER, lambda one: _heads(corrupted, one))
    if not layers:
        raise CallError(f"kind={kind!r}: there is no attention with heads; by='positions' or 'states' may show more")
    answers = Answers(clean, corrupted, row)
    states = [states_of(layer, lambda: answers.score(clean)) for layer in layers]

    def carry(number: int, head: int | None) -> Any:
        def change(old: State, new: State) -> State:
            if head is None or head >= layers[number].heads:
                return new if head is None else old
            parts, others = (one[0].unflatten(-1, (layers[number].heads, -1)) for one in (old, new))
            parts = parts.clone()
            parts[..., head, :] = others[..., head, :]
            return (parts.flatten(-2),)

        return carried(layers[number], states[number], change)

    most = max(layer.heads for layer in layers)
    values = with_margins(answers, len(layers), most, carry)
    columns = [f"head {number}" for number in range(most)]
    return Patched(kind, margin([layer.name for layer in layers]), margin(columns), values)


def patched_positions(
    clean: Case, corrupted: Case, kind: Kind | None, row: int | None, names: Callable[[Kind, int], list[str]]
) -> Patched:
    """Return the recovered share for the vector at each position; `names` labels the positions."""
    kind, layers = _first(kind, ("encoder", "decoder"), lambda one: _layers(corrupted, one))
    if not layers:
        raise CallError(f"kind={kind!r}: this model has no layers whose states could be carried over, nor a memory")
    answers = Answers(clean, corrupted, row)
    states = [states_of(layer, lambda: answers.score(clean)) for layer in layers]
    last = states[-1][0]
    length, summed = last[0].shape[-2], len(last) > 1
    fits = [one[0][0].shape[-2] - length in (0, int(summed)) for one in states]  # not those of a part of the input
    layers = [one for one, fit in zip(layers, fits, strict=True) if fit]
    states = [one for one, fit in zip(states, fits, strict=True) if fit]

    def carry(number: int, place: int | None) -> Any:
        def change(old: State, new: State) -> State:
            if place is None:
                return new
            token = old[0].shape[-2] - length  # 1: a class token, which stands first
            if place == length and not token:  # the summary
                return (old[0], *new[1:])
            vectors, at = old[0].clone(), 0 if place == length else place + token
            vectors[..., at, :] = new[0][..., at, :]
            return (vectors, *old[1:])

        return carried(layers[number], states[number], change)

    values = with_margins(answers, len(layers), length + summed, carry)
    columns = margin([*names(kind, length), *([SUMMARY] if summed else ())])
    kept = [place for place, name in enumerate(columns) if name != SUMMARY or values[:, place].any()]
    return Patched(kind, margin([layer.name for layer in layers]), [columns[place] for place in kept], values[:, kept])


def _first(
    kind: Kind | None, kinds: Sequence[Kind], layers_of: Callable[[Kind], list[Layer]]
) -> tuple[Kind, list[Layer]]:
    """Return the requested kind, or the first available."""
    wanted: Sequence[Kind] = kinds if kind is None else (kind,)
    found: list[tuple[Kind, list[Layer]]] = [(one, layers_of(one)) for one in wanted]
    return next((pair for pair in found if pair[1]), found[0])


def _heads(case: Case, kind: Kind) -> list[Layer]:
    ran, _ = modules_run(case)
    found = [
        (name.rpartition(".")[0], role.layer, module)
        for name, module in ran.items()
        if isinstance(role := getattr(module, "role", None), Role) and role.kind == kind
        if isinstance(module, ManyHeads)
    ]
    names = layer_names([(name, number) for name, number, _ in found])
    return [
        Layer(name, module.out, module.heads, before=True) for name, (_, _, module) in zip(names, found, strict=True)
    ]


def layer_names(layers: Sequence[tuple[str, int]]) -> list[str]:
    """By number; where two stacks of layers have the same numbers, by their place in the model."""
    numbers = [number for _, number in layers]
    return [name if numbers.count(number) > 1 else f"layer {number}" for name, number in layers]


def has_heads(case: Case, kind: Kind | None) -> bool:
    return any(_heads(case, one) for one in ORDER if kind in (None, one))


def _layers(case: Case, kind: Kind) -> list[Layer]:
    """The layers that attentions of this kind stand in; for an encoder, and what it leaves in its memory."""
    ran, memory = modules_run(case)
    blocks = dict.fromkeys(
        (name.rpartition(".")[0], role.layer)
        for name, module in ran.items()
        if isinstance(role := getattr(module, "role", None), Role) and role.kind == kind and role.followed
        if "." in name
    )
    named = zip(layer_names(list(blocks)), blocks, strict=True)
    found = [Layer(name, case.model.get_submodule(block)) for name, (block, _) in named]
    if found:
        found.insert(0, Layer("embedding", found[0].module, before=True))
    if kind == "encoder" and memory is not None:
        found.append(Layer("memory", memory))
    return found


def states_of(layer: Layer, run: Callable[[], object]) -> list[State]:
    """In a run: one for each call of the module."""
    states: list[State] = []

    def keep(state: State) -> State:
        states.append(tuple(part.detach() for part in state))
        return state

    with _changing(layer, keep):
        run()
    return states


@contextmanager
def carried(layer: Layer, states: Sequence[State], change: Callable[[State, State], State]) -> Iterator[None]:
    """While it is active, `change(old, new)` of what the layer has and what it had in the clean run goes on."""
    calls = iter(states)

    def exchange(old: State) -> State:
        new = next(calls, None)
        if new is None or [part.shape for part in new] != [part.shape for part in old]:
            there = "no" if new is None else new[0].shape[-2]
            raise CallError(
                f"{layer.name}: {old[0].shape[-2]} positions here and {there} there; states are carried from one "
                "input into the other position by position, so both inputs need the same length"
            )
        return change(old, new)

    with _changing(layer, exchange):
        yield


@contextmanager
def _changing(layer: Layer, change: Callable[[State], State]) -> Iterator[None]:
    def given(module: nn.Module, args: Any) -> Any:
        return (*change((args[0],)), *args[1:])

    def gave(module: nn.Module, args: Any, output: Any) -> Any:
        if isinstance(output, Memory):
            vectors, summary = change((output.vectors, output.summary))
            return replace(output, vectors=vectors, summary=summary)
        return change((output,))[0]

    with hooked([Before(layer.module, given) if layer.before else After(layer.module, gave)]):
        yield
