"""Extra scores of a search besides the decoder: CTC, a language model, coverage.

The equations are those of `regard.decoding.ctc_joint` and `regard.decoding.coverage`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.errors import CallError
from regard.light.continuing import Reader
from regard.light.ctc import Prefixes
from regard.light.rules import normalizer
from regard.light.session import Arrays
from regard.light.steps import State, Steps


@dataclass(frozen=True)
class LanguageModelVoice:
    model: Reader
    weight: float
    tokens: np.ndarray  # V: the language model's id of each of our tokens


@dataclass(frozen=True)
class JointState:
    decoder: State
    prefixes: Prefixes | None
    language: Arrays | None
    started: bool = False

    @property
    def rows(self) -> int:
        return self.decoder.rows

    @property
    def seen(self) -> Arrays:
        return self.decoder.seen

    def select(self, rows: np.ndarray) -> "JointState":
        prefixes = None if self.prefixes is None else self.prefixes.select(rows)
        language = None if self.language is None else {name: one[rows] for name, one in self.language.items()}
        return JointState(self.decoder.select(rows), prefixes, language, self.started)


@dataclass(frozen=True)
class Joint:
    """A decoder that adds the other scores at every step; it returns scores, not logits."""

    steps: Steps
    ctc: float = 0.0
    language: LanguageModelVoice | None = None

    def start(self, state: State) -> JointState:
        prefixes = Prefixes.start(state.beside["ctc"]) if self.ctc else None
        return JointState(state, prefixes, None if self.language is None else self.language.model.start(state.rows))

    def step(self, tokens: np.ndarray, state: JointState, *, watch: bool = False) -> tuple[np.ndarray, JointState]:
        logits, decoder = self.steps.step(tokens, state.decoder, watch=watch)
        scores = logits - normalizer(logits)[:, None]
        started, state = state.started, replace(state, decoder=decoder, started=True)
        if state.prefixes is not None:
            # The first step reads <s>, which is not a token of the text.
            prefixes = state.prefixes.step(tokens) if started else state.prefixes
            scores = np.float32(1 - self.ctc) * scores + np.float32(self.ctc) * prefixes.gains()
            state = replace(state, prefixes=prefixes)
        if self.language is not None and state.language is not None:
            told, language = self.language.model.read(self.language.tokens[tokens][:, None], state.language)
            told = told[:, -1] - normalizer(told[:, -1])[:, None]
            scores = scores + np.float32(self.language.weight) * told[:, self.language.tokens]
            state = replace(state, language=language)
        return scores, state


@dataclass(frozen=True)
class CoveredState:
    decoder: Any
    covered: np.ndarray | float = 0.0  # N K

    @property
    def rows(self) -> int:
        return self.decoder.rows

    def select(self, rows: np.ndarray) -> "CoveredState":
        return CoveredState(self.decoder.select(rows), np.asarray(self.covered)[rows])

    def coverage(self, row: int) -> float:
        """Return the coverage score. A masked vector (padding) has weight exactly 0 and is excluded."""
        covered = np.asarray(self.covered)[row]
        return float(np.log(np.minimum(covered[covered > 0], 1.0)).sum())


@dataclass(frozen=True)
class Covering:
    """A decoder whose state sums the weights of `attention`, its last one over the memory."""

    steps: Any
    attention: str | None

    def step(self, tokens: np.ndarray, state: CoveredState) -> tuple[np.ndarray, CoveredState]:
        logits, decoder = self.steps.step(tokens, state.decoder, watch=True)
        if self.attention not in decoder.seen:
            raise CallError(
                "decoding.coverage_penalty needs attention weights, which this export lacks: export "
                "the run again, without --no-attention (or the model has no attention)"
            )
        weights = decoder.seen[self.attention].mean(axis=1)[:, 0]  # N H 1 K
        return logits, CoveredState(decoder, state.covered + weights)
