"""Figures of heads: entropy, alignment error and role.

The role is that of `methods/roles.py` on this one input: the share of a head's weight on the columns of that role,
minus the share by chance. `regard look RUN --profile` computes it over many inputs.
"""

from dataclasses import dataclass
from typing import Any

from regard.look.card import alignment_error, entropy, is_word_table, normalize_rows
from regard.look.methods.roles import CLEAR, above_chance
from regard.look.records import Attention, AttentionRecord


@dataclass(frozen=True)
class HeadFigures:
    """Figures of one head. `alignment_error` needs gold links; `role` is the clearest one (CLEAR `above_chance`)."""

    entropy: float
    alignment_error: float | None = None
    role: str = ""
    above_chance: float = 0.0

    @property
    def parts(self) -> list[str]:
        """Return the figures above the head in the view of all heads."""
        parts = [f"{self.entropy:.2f} bits"]
        if self.alignment_error is not None:
            parts.append(f"AER {self.alignment_error:.2f}")
        if self.role:
            parts.append(f"{self.role} {self.above_chance:+.2f}")
        return parts

    @property
    def line(self) -> str:
        return ", ".join(self.parts)

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None} | {"line": self.line}


def head_figures(record: AttentionRecord, attention: Attention) -> list[HeadFigures]:
    """Compute the figures of every head of an attention."""
    roles = above_chance([AttentionRecord((attention,), record.axes)])
    return [_figures(record, attention, head, roles) for head in range(len(attention.weights))]


def _figures(
    record: AttentionRecord, attention: Attention, head: int, roles: dict[str, dict[str, float]]
) -> HeadFigures:
    table = record.matrix(attention.kind, attention.layer, head)
    weights = normalize_rows(table.weights)
    error = None
    if record.gold is not None and is_word_table(table):
        error = alignment_error(table, weights, record.gold)
    own = roles.get(f"{attention.kind}.{attention.layer}.{head}", {})
    role = max(own, key=lambda name: own[name], default="")
    clear = bool(role) and own[role] >= CLEAR
    return HeadFigures(entropy(weights), error, role if clear else "", own[role] if role else 0.0)
