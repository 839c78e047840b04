"""Bidirectional attention flow: the document attends to the question, and the question to the document.

    S_tj        = score(h_t, u_j)                                    trilinear in the paper; any score here
    ũ_t         = Σ_j softmax_j(S_t:) u_j                            document to question
    h̃           = Σ_t softmax_t(max_j S_tj) h_t                      question to document, `most`

h_t and u_j are states of the document and of the question; `recurrent_reader` uses ũ and h̃.

Seo et al. 2016, section 2.4 (arXiv:1611.01603). With `each`, every word of the question attends to the document
by itself, and its context is returned to the document along S (Xiong et al. 2016, section 2.2, arXiv:1611.01604, who
take the plain dot product):

    v_j = Σ_t softmax_t(S'_jt) h_t,     h̃_t = Σ_j softmax_j(S_t:) v_j

Where we differ: S' is a separate score with its own weights, not S transposed.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.head_mask import masked_heads
from regard.attention.role import Role
from regard.attention.score import Score
from regard.attention.scoring import Scoring
from regard.attention.trace import tracing


class Looking(nn.Module):
    """Σ_j softmax_j(score(q, k_j)) v_j, with the values apart from the keys."""

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score
        self.role: Role | None = None

    def forward(
        self,
        query: Float[Tensor, "B Q D"],
        key: Float[Tensor, "B K D"],
        value: Float[Tensor, "B K V"],
        mask: Bool[Tensor, "B K"],
    ) -> Float[Tensor, "B Q V"]:
        trace = tracing()
        context, weights = attend(
            self.score, query, key, value, mask.unsqueeze(1),
            need_weights=trace is not None, check_finite=not self.training,
        )  # fmt: skip
        if trace is not None and weights is not None:
            trace.keep(self, weights.unsqueeze(1), value)
        return torch.zeros_like(context) if masked_heads(self) else context


class MostAlike(nn.Module):
    """h̃ = Σ_t softmax_t(max_j S_tj) h_t

    Under a trace, the weight of each document word t is assigned to the question word j with the largest score:
    rows are question words, and all rows together sum to one.
    """

    def __init__(self, score: Score) -> None:
        super().__init__()
        self.score = score
        self.role: Role | None = None

    def forward(
        self,
        document: Float[Tensor, "B K D"],
        question: Float[Tensor, "B Q D"],
        real: Bool[Tensor, "B K"],
        asked: Bool[Tensor, "B Q"],
    ) -> Float[Tensor, "B 1 D"]:
        form = self.score.normal_form(document, question)
        table = form.table()  # B K Q
        table = table.masked_fill(~asked.unsqueeze(1), torch.finfo(table.dtype).min)
        most, who = table.max(2)
        weights = most.masked_fill(~real, torch.finfo(most.dtype).min).softmax(1).masked_fill(~real, 0)
        if (trace := tracing()) is not None:
            by_word = torch.zeros_like(table.mT).scatter(1, who.unsqueeze(1), weights.unsqueeze(1))  # B Q K
            turned = form._replace(query=form.key, key=form.query)
            trace.scored(Scoring(self.score, turned, by_word > 0, together=True))
            trace.keep(self, by_word.unsqueeze(1), document)
            weights = by_word.sum(1)
        context = (weights.unsqueeze(1) @ document.to(weights.dtype)).to(document.dtype)
        return torch.zeros_like(context) if masked_heads(self) else context
