"""The computation of attention weights in a trace: the scores, and the values that are averaged.

    e = score(q, k) + bias       a = softmax(e) where the mask allows       y = Σ_heads Σ_j a_j v_j W_o

`row` returns the numbers of one query of one head, and `added` the contribution of each key to y.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.leading_shape import leading_shape
from regard.attention.score import DotForm, Score, TanhForm


class Values(NamedTuple):
    """`value`: B H K Dv (or B K Dv for one head); `out`: H Dv D, or None without an output layer."""

    value: Tensor
    out: Tensor | None


class ScoredRow(NamedTuple):
    """`form`: of the query and all keys. `scores`: including the bias; −∞ for keys that the mask hides."""

    form: DotForm | TanhForm
    bias: Float[Tensor, " K"] | None
    scores: Float[Tensor, " K"]

    def with_key(self, key: int) -> DotForm | TanhForm:
        """Return the form of the query and one key."""
        return self.form._replace(key=self.form.key[[key]])


class Scoring(NamedTuple):
    """The computation of one call. `together`: one softmax for all queries; each key belongs to its best query."""

    score: Score
    form: DotForm | TanhForm
    mask: Tensor | None = None
    bias: Tensor | None = None
    together: bool = False
    values: Values | None = None

    def row(self, weights: Float[Tensor, "N H Q K"], batch: int, head: int, query: int) -> ScoredRow:
        """Return one row. `weights`: the weights of this call; beams may share the keys of a row."""
        own, beam = divmod(batch, len(weights) // len(self._expanded(self.form.query)))
        query += beam * weights.shape[-2]
        form = self.form._replace(
            query=self._of_head(self.form.query, own, head), key=self._of_head(self.form.key, own, head)
        )
        queries = slice(None) if self.together else [query]
        scores = form._replace(query=form.query[queries]).table()
        size = (len(form.query), len(form.key))
        bias = None if self.bias is None else self._of_head(self.bias, own, head, size)[queries]
        scores = scores if bias is None else scores + bias
        if self.mask is not None:
            scores = scores.masked_fill(~self._of_head(self.mask, own, head, size)[queries], -torch.inf)
        return ScoredRow(
            form._replace(query=form.query[[query]]), None if bias is None else bias[-1], scores.max(0).values
        )

    def added(
        self, weights: Float[Tensor, "N H Q K"], batch: int, query: int
    ) -> tuple[Float[Tensor, "H K D"], Float[Tensor, "H K Dv"]]:
        """Return what each key of each head adds to the output (their sum), and the values that are averaged."""
        assert self.values is not None
        value, out = self.values
        value = value if value.ndim == 4 else value.unsqueeze(1)
        value = value[batch * len(value) // len(weights)].float()
        rows = weights[batch].sum(-2) if self.together else weights[batch, :, query]
        value = value.repeat_interleave(len(rows) // len(value), 0)[:, : rows.shape[-1]]
        return rows.unsqueeze(-1) * (value if out is None else value @ out.float()), value

    def _expanded(self, x: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        return x.expand(*leading_shape(self.form.query, self.form.key), *(size or x.shape[-2:]))

    def _of_head(self, x: Tensor, batch: int, head: int, size: tuple[int, int] | None = None) -> Tensor:
        """Return one head, N M. Heads are one dimension after the batch, two (groups that share keys), or none."""
        one = self._expanded(x, size)[batch]
        return one.reshape(-1, *one.shape[-2:])[head]
