"""Activation patching: the share of the difference between two inputs in one state of a model.

    r = (s(corrupted, with one state of the clean run) − s(corrupted)) / (s(clean) − s(corrupted))

s is the score of the answer (log p, summed over its steps, or of one step). 1: this state alone restores the answer;
0: it has no effect; below zero: it opposes the answer. The states:

    heads       the output of a head at all positions, before W_o mixes the heads
    positions   the output of a layer at one position, or of an encoder of any kind in its memory; also the summary
                vector (in all layers of a ViT, its class token)
    states      those of recurrent layers, step by step: `paths.py`

Vig et al. 2020, section 3 (arXiv:2004.12265); Meng et al. 2022, section 2.1 (arXiv:2202.05262); Zhang and Nanda 2023
(arXiv:2309.16042) on pitfalls. Shares need not sum to one: two heads may have the same effect, or only a joint one. So
tables have margins, with several states patched at once.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.masks import ManyHeads
from regard.attention.memory import Memory
from regard.attention.score import Role
from regard.errors import CallError
from regard.look.case import WHOLE, ExplainTarget
from regard.look.hooks import After, Before, active_hooks
from regard.look.records import ORDER, Kind

# Shared code of activation patching by heads, positions, recurrent states and paths.
#
#     r = (s(corrupted, with some states of the clean run) − s(corrupted)) / (s(clean) − s(corrupted))
#
# s is the score of the answer, summed over its steps, or of one step. The margins of a table are patched at once: the
# last column is a whole layer, the last row one part of all layers, the corner everything.

SAME = 1e-4  # with a smaller difference of the scores, there is nothing to restore
ALL = "all"


class PatchingResult(NamedTuple):
    """Recovered shares. `values`: layers × heads, or layers × positions, with margins if there are several."""

    kind: Kind
    layers: list[str]
    columns: list[str]
    values: np.ndarray


class PatchAnswers:
    """Scores of one answer for two inputs, and for the second with states patched from the first."""

    def __init__(self, clean: ExplainTarget, corrupted: ExplainTarget, row: int | None) -> None:
        self.clean, self.corrupted, self.row = clean, corrupted, row
        self.top, self.bottom = self.score(clean), self.score(corrupted)
        if abs(self.top - self.bottom) < SAME:
            raise CallError(
                f"both inputs give this answer the same score ({self.top:.4f}), so there is nothing to patch: give a "
                "second input that changes the score"
            )

    def score(self, case: ExplainTarget) -> float:
        with torch.no_grad():
            steps = case.ask([WHOLE])[0]
        return float(steps[case.first :].sum() if self.row is None else steps[self.row])

    def share(self) -> float:
        """Return the recovered share of the score for the second input, with the current patches."""
        return (self.score(self.corrupted) - self.bottom) / (self.top - self.bottom)


def with_margins(
    answers: PatchAnswers, layers: int, columns: int, carry: Callable[[int, int | None], AbstractContextManager[Any]]
) -> np.ndarray:
    """Return the table with margins. `carry(layer, column)` patches a state; column None: the whole layer."""
    rows: list[Sequence[int]] = [*([number] for number in range(layers)), *([range(layers)] if layers > 1 else ())]
    places: list[int | None] = [*range(columns), *([None] if columns > 1 else ())]
    found = np.zeros((len(rows), len(places)))
    for row, some in enumerate(rows):
        for column, place in enumerate(places):
            with ExitStack() as stack:
                for layer in some:
                    stack.enter_context(carry(layer, place))
                found[row, column] = answers.share()
    return found


def margin(names: Sequence[str]) -> list[str]:
    """Return the name of the margin of rows or columns."""
    return [*names, *([ALL] if len(names) > 1 else ())]


def modules_run(case: ExplainTarget) -> tuple[dict[str, nn.Module], nn.Module | None]:
    """Return the modules that run when the case is scored, in order, and the outermost one with a memory.

    Of two towers, only one runs again."""
    ran: dict[str, nn.Module] = {}
    memories: list[nn.Module] = []
    names = {module: name for name, module in case.model.named_modules()}

    def note(module: nn.Module, args: Any, output: Any) -> None:
        ran[names[module]] = module
        if isinstance(output, Memory):
            memories.append(module)

    with torch.no_grad(), active_hooks(After(module, note) for module in names):
        case.ask([WHOLE])
    return ran, memories[-1] if memories else None


SUMMARY = "summary"
State = tuple[Tensor, ...]  # (B, …, D); of a memory, its vectors and its summary


class PatchedLayer(NamedTuple):
    """A module whose state is copied from one run to the other."""

    name: str
    module: nn.Module
    heads: int = 0
    before: bool = False  # the state is the input of the module, not its output


def patched_heads(clean: ExplainTarget, corrupted: ExplainTarget, kind: Kind | None, row: int | None) -> PatchingResult:
    """Return the recovered share for each head."""
    kind, layers = _first(kind, ORDER, lambda one: _heads(corrupted, one))
    if not layers:
        raise CallError(f"kind={kind!r}: this model has no attention with heads; try by='positions' or by='states'")
    answers = PatchAnswers(clean, corrupted, row)
    states = [states_of(layer, lambda: answers.score(clean)) for layer in layers]

    def carry(number: int, head: int | None) -> Any:
        def change(old: State, new: State) -> State:
            if head is None or head >= layers[number].heads:
                return new if head is None else old
            parts, others = (one[0].unflatten(-1, (layers[number].heads, -1)) for one in (old, new))
            parts = parts.clone()
            parts[..., head, :] = others[..., head, :]
            return (parts.flatten(-2),)

        return replace_states(layers[number], states[number], change)

    most = max(layer.heads for layer in layers)
    values = with_margins(answers, len(layers), most, carry)
    columns = [f"head {number}" for number in range(most)]
    return PatchingResult(kind, margin([layer.name for layer in layers]), margin(columns), values)


def patched_positions(
    clean: ExplainTarget,
    corrupted: ExplainTarget,
    kind: Kind | None,
    row: int | None,
    names: Callable[[Kind, int], list[str]],
) -> PatchingResult:
    """Return the recovered share for the vector at each position; `names` labels the positions."""
    kind, layers = _first(kind, ("encoder", "decoder"), lambda one: _layers(corrupted, one))
    if not layers:
        raise CallError(f"kind={kind!r}: this model has no layers with states to patch, and no memory")
    answers = PatchAnswers(clean, corrupted, row)
    states = [states_of(layer, lambda: answers.score(clean)) for layer in layers]
    last = states[-1][0]
    length, summed = last[0].shape[-2], len(last) > 1
    fits = [
        one[0][0].shape[-2] - length in (0, int(summed)) for one in states
    ]  # states of a part of the input do not fit
    layers = [one for one, fit in zip(layers, fits, strict=True) if fit]
    states = [one for one, fit in zip(states, fits, strict=True) if fit]

    def carry(number: int, place: int | None) -> Any:
        def change(old: State, new: State) -> State:
            if place is None:
                return new
            token = old[0].shape[-2] - length  # 1: a class token at the first position
            if place == length and not token:  # the summary
                return (old[0], *new[1:])
            vectors, at = old[0].clone(), 0 if place == length else place + token
            vectors[..., at, :] = new[0][..., at, :]
            return (vectors, *old[1:])

        return replace_states(layers[number], states[number], change)

    values = with_margins(answers, len(layers), length + summed, carry)
    columns = margin([*names(kind, length), *([SUMMARY] if summed else ())])
    kept = [place for place, name in enumerate(columns) if name != SUMMARY or values[:, place].any()]
    return PatchingResult(
        kind, margin([layer.name for layer in layers]), [columns[place] for place in kept], values[:, kept]
    )


def _first(
    kind: Kind | None, kinds: Sequence[Kind], layers_of: Callable[[Kind], list[PatchedLayer]]
) -> tuple[Kind, list[PatchedLayer]]:
    """Return the requested kind, or the first available."""
    wanted: Sequence[Kind] = kinds if kind is None else (kind,)
    found: list[tuple[Kind, list[PatchedLayer]]] = [(one, layers_of(one)) for one in wanted]
    return next((pair for pair in found if pair[1]), found[0])


def _heads(case: ExplainTarget, kind: Kind) -> list[PatchedLayer]:
    ran, _ = modules_run(case)
    found = [
        (name.rpartition(".")[0], role.layer, module)
        for name, module in ran.items()
        if isinstance(role := getattr(module, "role", None), Role) and role.kind == kind
        if isinstance(module, ManyHeads)
    ]
    names = layer_names([(name, number) for name, number, _ in found])
    return [
        PatchedLayer(name, module.out, module.heads, before=True)
        for name, (_, _, module) in zip(names, found, strict=True)
    ]


def layer_names(layers: Sequence[tuple[str, int]]) -> list[str]:
    """Return layer names: their numbers, or module names if two stacks have the same numbers."""
    numbers = [number for _, number in layers]
    return [name if numbers.count(number) > 1 else f"layer {number}" for name, number in layers]


def has_heads(case: ExplainTarget, kind: Kind | None) -> bool:
    return any(_heads(case, one) for one in ORDER if kind in (None, one))


def _layers(case: ExplainTarget, kind: Kind) -> list[PatchedLayer]:
    """Return the layers with attention of this kind; for an encoder, also its memory."""
    ran, memory = modules_run(case)
    blocks = dict.fromkeys(
        (name.rpartition(".")[0], role.layer)
        for name, module in ran.items()
        if isinstance(role := getattr(module, "role", None), Role) and role.kind == kind and role.followed
        if "." in name
    )
    named = zip(layer_names(list(blocks)), blocks, strict=True)
    found = [PatchedLayer(name, case.model.get_submodule(block)) for name, (block, _) in named]
    if found:
        found.insert(0, PatchedLayer("embedding", found[0].module, before=True))
    if kind == "encoder" and memory is not None:
        found.append(PatchedLayer("memory", memory))
    return found


def states_of(layer: PatchedLayer, run: Callable[[], object]) -> list[State]:
    """Return the states of a run, one for each call of the module."""
    states: list[State] = []

    def keep(state: State) -> State:
        states.append(tuple(part.detach() for part in state))
        return state

    with _changing(layer, keep):
        run()
    return states


@contextmanager
def replace_states(
    layer: PatchedLayer, states: Sequence[State], change: Callable[[State, State], State]
) -> Iterator[None]:
    """Replace the state of a layer by `change(old, new)` while active; `new` is its state in the clean run."""
    calls = iter(states)

    def exchange(old: State) -> State:
        new = next(calls, None)
        if new is None or [part.shape for part in new] != [part.shape for part in old]:
            there = "no" if new is None else new[0].shape[-2]
            raise CallError(
                f"{layer.name}: {old[0].shape[-2]} positions in the second input and {there} in the first; patching "
                "copies states position by position, so both inputs need the same length"
            )
        return change(old, new)

    with _changing(layer, exchange):
        yield


@contextmanager
def _changing(layer: PatchedLayer, change: Callable[[State], State]) -> Iterator[None]:
    def given(module: nn.Module, args: Any) -> Any:
        return (*change((args[0],)), *args[1:])

    def gave(module: nn.Module, args: Any, output: Any) -> Any:
        if isinstance(output, Memory):
            vectors, summary = change((output.vectors, output.summary))
            return replace(output, vectors=vectors, summary=summary)
        return change((output,))[0]

    with active_hooks([Before(layer.module, given) if layer.before else After(layer.module, gave)]):
        yield
