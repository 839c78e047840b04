"""A step-by-step decoder of two graphs, with explicit state as in `regard.decoding`.

start(source) → State;    step(tokens, State) → logits, State;    log_probabilities(State, targets): of given outputs
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.light.rules import normalizer
from regard.light.session import Arrays, Session, seen_in
from regard.special_tokens import END, PAD, START
from regard.work import before_step

NEXT = "next_"


@dataclass(frozen=True)
class State:
    """N rows. `memory`: arrays of the sentence of each row (`owner`); `past`: arrays that a step changes. `beside`:
    other outputs of the encoder, a row for each source.
    """

    memory: Arrays
    past: Arrays
    owner: np.ndarray  # N
    row_axis: Mapping[str, int]  # the dimension of rows in each array
    seen: Arrays  # attention of the last step (at first, of the encoder), if watched
    beside: Arrays

    @property
    def rows(self) -> int:
        return len(self.owner)

    def select(self, rows: np.ndarray) -> "State":
        """Keep, drop, repeat or reorder rows. Beams of a sentence share its memory, which is copied only if the
        owners change.
        """
        owner = self.owner[rows]
        same = len(owner) == len(self.owner) and bool((owner == self.owner).all())
        return replace(
            self, owner=owner, memory=self.memory if same else self._taken(self.memory, rows),
            past=self._taken(self.past, rows),
        )  # fmt: skip

    def _taken(self, arrays: Arrays, rows: np.ndarray) -> Arrays:
        return {name: array.take(rows, axis=self.row_axis.get(name, 0)) for name, array in arrays.items()}


class Steps:
    def __init__(self, encoder: Session, decoder: Session, shapes: Mapping[str, Any]) -> None:
        """Create the decoder. `shapes`: shapes of the decoder's inputs, from graphs.json."""
        self._encoder, self._decoder = encoder, decoder
        self._row_axis = {name: about["shape"].index("rows") for name, about in shapes.items()}
        self._changing = [name.removeprefix(NEXT) for name in decoder.plain if name.startswith(NEXT)]

    def start(self, source: Arrays, *, watch: bool = False) -> State:
        found = self._encoder(source, watch=watch)
        rows = np.arange(len(next(iter(source.values()))))
        state = {name: found[name] for name in self._encoder.plain}
        past = {name: state.pop(name) for name in self._changing}
        beside = {name: state.pop(name) for name in self._encoder.plain if name in state and name not in self._row_axis}
        return State(state, past, rows, self._row_axis, seen_in(found), beside)

    def step(self, tokens: np.ndarray, state: State, *, watch: bool = False) -> tuple[np.ndarray, State]:
        out = self._decoder({"tokens": tokens, **state.memory, **state.past}, watch=watch)
        past = {name: out[NEXT + name] for name in self._changing}
        return out["logits"], replace(state, past=past, seen=seen_in(out))

    def log_probabilities(self, state: State, targets: Sequence[Sequence[int]]) -> np.ndarray:
        """Return log p of a given output for each row, including the end."""
        rows, longest = np.arange(state.rows), max(map(len, targets))
        told = np.array([[*ids, END, *[PAD] * (longest - len(ids))] for ids in targets], np.int64)
        tokens, totals = np.full(state.rows, START, np.int64), np.zeros(state.rows)
        for step in told.T:
            before_step(state.rows)
            logits, state = self.step(tokens, state)
            totals += np.where(step == PAD, 0.0, logits[rows, step] - normalizer(logits))
            tokens = step
        return totals
