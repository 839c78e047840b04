"""Readers: a question and a document as input, two pointers to the first and last token of the answer as output.

    p(start = t) = softmax_t(s),    p(end = t) = softmax_t(e),    L = −½ (log p(start) + log p(end))

over the tokens t = 1 … K of a window of the document and t = 0, *no answer here*: Rajpurkar et al. 2018
(arXiv:1806.03822) ask for it, and Devlin et al. 2018, section 4.3 (arXiv:1810.04805), let [CLS] stand for it. Since
the pointers range over the document only, an answer can never lie in the question.

`PairReader` is Devlin et al.'s: s and e are linear in what an encoder makes of [CLS] question [SEP] document [SEP].
`RecurrentReader` is that of `models/reader.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attend import attend
from regard.attention.masks import masked_heads
from regard.attention.memory import Memory
from regard.attention.score import Role, Score
from regard.attention.trace import Scoring, tracing
from regard.encoders.text import masked_mean
from regard.layers.embedding import Embedding
from regard.layers.feed_forward import Dropout
from regard.layers.loss import OutputLoss
from regard.layers.recurrent import Cell, Recurrent

# Bidirectional attention flow: the document attends to the question, and the question to the document.
#
#     S_tj        = score(h_t, u_j)                                    trilinear in the paper; any score here
#     ũ_t         = Σ_j softmax_j(S_t:) u_j                            document to question
#     h̃           = Σ_t softmax_t(max_j S_tj) h_t                      question to document, `most`
#
# h_t and u_j are states of the document and of the question; `recurrent_reader` uses ũ and h̃.
#
# Seo et al. 2016, section 2.4 (arXiv:1611.01603). With `each`, every word of the question attends to the document by
# itself, and its context is returned to the document along S (Xiong et al. 2016, section 2.2, arXiv:1611.01604, who
# take the plain dot product):
#
#     v_j = Σ_t softmax_t(S'_jt) h_t,     h̃_t = Σ_j softmax_j(S_t:) v_j
#
# Where we differ: S' is a separate score with its own weights, not S transposed.


class DocumentToQuestion(nn.Module):
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
            trace.note_scores(Scoring(self.score, turned, by_word > 0, together=True))
            trace.keep(self, by_word.unsqueeze(1), document)
            weights = by_word.sum(1)
        context = (weights.unsqueeze(1) @ document.to(weights.dtype)).to(document.dtype)
        return torch.zeros_like(context) if masked_heads(self) else context


# Two texts as one input of a pair encoder: [CLS] question [SEP] document [SEP].


class JoinedTexts(NamedTuple):
    """[CLS] question [SEP] document [SEP], segments (document: 1), and the document positions."""

    tokens: Int[Tensor, "B L"]
    types: Int[Tensor, "B L"]
    places: Int[Tensor, "B K"]


def join(question: Int[Tensor, "B Q"], document: Int[Tensor, "B K"], cls: int, sep: int, pad: int) -> JoinedTexts:
    """Padding between the two is left out: the document follows its question at once."""
    asked, read = ((ids != pad).sum(1, keepdim=True) for ids in (question, document))
    Q, K = question.shape[1], document.shape[1]
    tokens = question.new_full((question.shape[0], Q + K + 3), pad)
    tokens[:, 0] = cls
    tokens[:, 1 : Q + 1] = question
    tokens.scatter_(1, asked + 1, sep)
    places = asked + 2 + torch.arange(K, device=question.device)
    tokens.scatter_(1, places, document)  # its padding lands on padding
    tokens.scatter_(1, asked + 2 + read, sep)
    if not torch.compiler.is_exporting():  # a graph cannot know how much of the end is padding in all rows
        tokens = tokens[:, : int((asked + read).max()) + 3]
    at = torch.arange(tokens.shape[1], device=question.device)
    types = (at > asked + 1) & (at <= asked + 2 + read)
    return JoinedTexts(tokens, types.long(), places.clamp(max=tokens.shape[1] - 1))


@dataclass(frozen=True)
class TextPair:
    """What a reader reads: padded ids of questions, and of windows of documents."""

    question: Int[Tensor, "B Q"]
    document: Int[Tensor, "B K"]

    def to(self, device: torch.device | str) -> "TextPair":
        return TextPair(*(side.to(device, non_blocking=True) for side in (self.question, self.document)))


@runtime_checkable
class QuestionBatch(Protocol):
    """What a reader is trained on: where answers begin and end, from 1 (0: no answer; -1: nothing is asked)."""

    @property
    def source(self) -> TextPair: ...
    @property
    def target(self) -> Int[Tensor, "B 2"]: ...


class Pointers(NamedTuple):
    """Scores of *no answer* (place 0) and of each token of the document (from 1); padding has the lowest number."""

    start: Float[Tensor, "B K1"]
    end: Float[Tensor, "B K1"]


class SpanReader(nn.Module, ABC):
    def __init__(self, pad: int) -> None:
        super().__init__()
        self.pad = pad

    @abstractmethod
    def point(self, question: Int[Tensor, "B Q"], document: Int[Tensor, "B K"]) -> Pointers: ...

    def forward(self, batch: QuestionBatch) -> OutputLoss:
        pointers = torch.stack(self.point(batch.source.question, batch.source.document), dim=2)  # B K1 2
        total = F.cross_entropy(pointers.float(), batch.target, reduction="sum", ignore_index=-1) / 2
        right = (pointers.argmax(1) == batch.target).all(1)
        return OutputLoss(total, int((batch.target[:, 0] >= 0).sum()), right.sum())

    def mask_padding(self, scores: Float[Tensor, "B K1"], real: Bool[Tensor, "B K"]) -> Float[Tensor, "B K1"]:
        """Padding of the document gets the lowest number; no answer, in front, is always there."""
        return scores.masked_fill(~F.pad(real, (1, 0), value=True), torch.finfo(scores.dtype).min)


class PairReader(SpanReader):
    """`types`: the encoder has a vector for each of the two segments."""

    def __init__(
        self, encoder: nn.Module, width: int, *, cls: int, sep: int, pad: int, types: bool, dropout: float = 0.0
    ) -> None:
        super().__init__(pad)
        self.encoder, self.cls, self.sep, self.types = encoder, cls, sep, types
        self.pointers = nn.Linear(width, 2)
        self.dropout = Dropout(dropout)
        nn.init.normal_(self.pointers.weight, std=0.02)
        nn.init.zeros_(self.pointers.bias)

    @property
    def embedding(self) -> Embedding:
        """Of the words of both texts, as a recurrent reader has it, too."""
        return self.encoder.embedding  # pyright: ignore[reportReturnType]

    def point(self, question: Int[Tensor, "B Q"], document: Int[Tensor, "B K"]) -> Pointers:
        joined = join(question, document, self.cls, self.sep, self.pad)
        memory: Memory = self.encoder(joined.tokens, joined.types if self.types else None)
        scores = self.pointers(self.dropout(memory.vectors))  # B L 2
        places = F.pad(joined.places, (1, 0))  # [CLS] stands for no answer
        start, end = scores.gather(1, places.unsqueeze(2).expand(-1, -1, 2)).unbind(2)
        real = document != self.pad
        return Pointers(self.mask_padding(start, real), self.mask_padding(end, real))


class RecurrentReader(SpanReader):
    """A recurrent reader: attention flows between document and question, and what it brings is read once more.

        h_t, u_j    recurrent states over the document and over the question, from one encoder
        ũ_t, h̃_t    what each word of the document sees of the question, and gets back: see `attention_flow`
        g_t         = [h_t; ũ_t; h_t ∘ ũ_t; h_t ∘ h̃_t]                   what goes on; nothing is summed up
        m = RNN(g),  m' = RNN(m),   start: w ᵀ[g_t; m_t],   end: w'ᵀ[g_t; m'_t]

    Seo et al. 2016, sections 2.5 and 2.6 (arXiv:1611.01603). Where we differ: one GRU or LSTM over word vectors,
    without convolutions over characters and highway layers (sub-words know of spelling); each word is told whether
    the other text has it, too (Chen et al. 2017, section 3.2, arXiv:1704.00051); *no answer* is scored from the
    mean of m and m'.
    """

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
        self.to_question = DocumentToQuestion(score())
        self.to_document = MostAlike(self.to_question.score) if to_document == "most" else DocumentToQuestion(score())
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
        return self.mask_padding(torch.cat([none(masked_mean(states, real)), words], dim=1), real)
