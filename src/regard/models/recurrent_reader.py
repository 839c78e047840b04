"""A recurrent reader: attention flows between document and question, and what it brings is read once more.

    h_t, u_j    recurrent states over the document and over the question, from one encoder
    ũ_t, h̃_t    what each word of the document sees of the question, and gets back: see `attention_flow`
    g_t         = [h_t; ũ_t; h_t ∘ ũ_t; h_t ∘ h̃_t]                   what goes on; nothing is summed up
    m = RNN(g),  m' = RNN(m),   start: w ᵀ[g_t; m_t],   end: w'ᵀ[g_t; m'_t]

Seo et al. 2016, sections 2.5 and 2.6 (arXiv:1611.01603). Where we differ: one GRU or LSTM over word vectors, without
convolutions over characters and highway layers (sub-words know of spelling); each word is told whether the other text
has it, too (Chen et al. 2017, section 3.2, arXiv:1704.00051); *no answer* is scored from the mean of m and m'.
"""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.role import Role
from regard.attention.score import Score
from regard.encoders.text import masked_mean
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.recurrent import Cell, Recurrent
from regard.models.attention_flow import Looking, MostAlike
from regard.models.reader import Pointers, Reader


class RecurrentReader(Reader):
    def __init__(
        self,
        embedding: Embedding,
        width: int,
        *,
        score: Callable[[], Score],
        to_document: Literal["most", "each"] = "most",
        cell: Cell = "lstm",
        depth: int = 1,
        reading_depth: int = 2,
        match: bool = True,
        dropout: float = 0.0,
        pad: int = 0,
    ) -> None:
        """`width`: of all recurrent states. `score()` makes a score that compares two of them."""
        super().__init__(pad)
        self.embedding, self.match = embedding, match
        self.context = Recurrent(embedding.width_out + match, width, cell=cell, depth=depth, dropout=dropout)
        self.to_question = Looking(score())
        self.to_document = MostAlike(self.to_question.score) if to_document == "most" else Looking(score())
        self.to_question.role, self.to_document.role = Role("cross", 0), Role("cross", 1)
        self.read_start = Recurrent(4 * width, width, cell=cell, depth=reading_depth, dropout=dropout)
        self.read_end = Recurrent(width, width, cell=cell, dropout=dropout)
        self.start, self.end = nn.Linear(5 * width, 1), nn.Linear(5 * width, 1)
        self.no_start, self.no_end = nn.Linear(width, 1), nn.Linear(width, 1)
        self.dropout = Dropout(dropout)

    def point(self, question: Int[Tensor, "B Q"], document: Int[Tensor, "B K"]) -> Pointers:
        asked, real = question != self.pad, document != self.pad
        alike = (document.unsqueeze(2) == question.unsqueeze(1)) & real.unsqueeze(2)  # B K Q
        u, h = self._states(question, asked, alike.any(1)), self._states(document, real, alike.any(2))
        if isinstance(self.to_document, MostAlike):
            seen = self.to_question(h, u, u, asked)
            back = self.to_document(h, u, real, asked)
        else:
            looked = self.to_document(u, h, h, real)
            both = self.to_question(h, u, torch.cat([u, looked], dim=-1), asked)
            seen, back = both.chunk(2, dim=-1)
        flow = self.dropout(torch.cat([h, seen, h * seen, h * back], dim=-1))
        first, _ = self.read_start(flow, real)
        second, _ = self.read_end(self.dropout(first), real)
        return Pointers(
            self._scores(flow, first, real, self.start, self.no_start),
            self._scores(flow, second, real, self.end, self.no_end),
        )

    def _states(
        self, tokens: Int[Tensor, "B S"], real: Bool[Tensor, "B S"], shared: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B S D"]:
        x = self.embedding(tokens)
        if self.match:
            x = torch.cat([x, shared.unsqueeze(2).to(x.dtype)], dim=-1)
        return self.dropout(self.context(x, real)[0])

    def _scores(
        self,
        flow: Float[Tensor, "B K F"],
        states: Float[Tensor, "B K D"],
        real: Bool[Tensor, "B K"],
        word: nn.Linear,
        none: nn.Linear,
    ) -> Float[Tensor, "B K1"]:
        words = word(torch.cat([flow, self.dropout(states)], dim=-1)).squeeze(2)
        return self.masked(torch.cat([none(masked_mean(states, real)), words], dim=1), real)
