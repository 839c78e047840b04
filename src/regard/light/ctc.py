"""Prefix probabilities by CTC over arrays, with the equations of `regard.decoding.ctc`.

In N prefixes, the beams of a recording are adjacent, and each recording has the same number.
"""

from dataclasses import dataclass, replace

import numpy as np

from regard.decoding.forced_alignment import BLANK, NEVER
from regard.special_tokens import END, START


@dataclass(frozen=True)
class Prefixes:
    scores: np.ndarray  # B K V: log p[t, c]; beyond a recording's end, blank has probability 1
    likely: np.ndarray  # the same as probabilities
    row: np.ndarray  # N: the recording of each prefix
    in_token: np.ndarray  # N K: r_n
    in_blank: np.ndarray  # N K: r_b
    last: np.ndarray  # N
    psi: np.ndarray  # N

    @classmethod
    def start(cls, scores: np.ndarray) -> "Prefixes":
        """Return the empty prefix: blanks only."""
        in_blank = scores[:, :, BLANK].cumsum(1)
        row = np.arange(len(scores))
        never = np.full_like(in_blank, NEVER)
        return cls(
            scores, np.exp(scores), row, never, in_blank, np.full_like(row, START), np.zeros_like(in_blank[:, 0])
        )

    def select(self, rows: np.ndarray) -> "Prefixes":
        own = ("row", "in_token", "in_blank", "last", "psi")
        return replace(self, **{name: getattr(self, name)[rows] for name in own})

    def gains(self) -> np.ndarray:
        """log p(g c … | g …) for every next token c: N V."""
        either, rows = np.logaddexp(self.in_token, self.in_blank), np.arange(len(self.row))
        psi = self._sum(either)
        psi[rows, self.last] = self._sum(self.in_blank)[rows, self.last]
        psi[:, END] = either[:, -1]
        return psi - self.psi[:, None]

    def _sum(self, before: np.ndarray) -> np.ndarray:
        """log Σ_t e^{before[t−1]} p[t, c]"""
        before = self._late(before)
        highest = before.max(1, keepdims=True)
        rows = np.unique(self.row)
        size = np.exp(before - highest).reshape(len(rows), -1, before.shape[1])
        likely = self.likely if len(rows) == len(self.likely) else self.likely[rows]
        with np.errstate(divide="ignore"):
            total = np.log(np.matmul(size, likely)).reshape(len(self.row), -1)
        return np.maximum(total + highest, NEVER)

    def _late(self, phi: np.ndarray) -> np.ndarray:
        """φ[t − 1]: before the first frame, only the empty prefix has probability 1."""
        first = np.where(self.last == START, 0.0, NEVER).astype(phi.dtype)
        return np.concatenate([first[:, None], phi[:, :-1]], axis=1)

    def step(self, tokens: np.ndarray) -> "Prefixes":
        """Extend each prefix by one token."""
        either = np.logaddexp(self.in_token, self.in_blank)
        phi = self._late(np.where((tokens == self.last)[:, None], self.in_blank, either))
        said, blank = self.scores[self.row, :, tokens], self.scores[self.row, :, BLANK]
        in_token = in_blank = np.full_like(self.psi, NEVER)
        both = np.empty((2, *phi.shape), phi.dtype)
        for t in range(phi.shape[1]):
            in_token, in_blank = (
                np.logaddexp(in_token, phi[:, t]) + said[:, t],
                np.logaddexp(in_token, in_blank) + blank[:, t],
            )
            both[:, :, t] = in_token, in_blank
        in_token, in_blank = np.maximum(both, NEVER)
        psi = np.logaddexp.reduce(phi + said, axis=1)
        return replace(self, in_token=in_token, in_blank=in_blank, last=tokens, psi=psi)
