"""Readers: a question and a document as input, two pointers to the first and last token of the answer as output.

    p(start = t) = softmax_t(s),    p(end = t) = softmax_t(e),    L = −½ (log p(start) + log p(end))

over the tokens t = 1 … K of a window of the document and t = 0, *no answer here*: Rajpurkar et al. 2018
(arXiv:1806.03822) ask for it, and Devlin et al. 2018, section 4.3 (arXiv:1810.04805), let [CLS] stand for it. Since
the pointers range over the document only, an answer can never lie in the question.

`PairReader` is Devlin et al.'s: s and e are linear in what an encoder makes of [CLS] question [SEP] document [SEP].
`RecurrentReader` is that of `models/recurrent_reader.py`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.memory import Memory
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.loss import Loss
from regard.models.joined_texts import join


@dataclass(frozen=True)
class TextPair:
    """What a reader reads: padded ids of questions, and of windows of documents."""

    question: Int[Tensor, "B Q"]
    document: Int[Tensor, "B K"]

    def to(self, device: torch.device | str) -> "TextPair":
        return TextPair(*(side.to(device, non_blocking=True) for side in (self.question, self.document)))


@runtime_checkable
class Batch(Protocol):
    """What a reader is trained on: where answers begin and end, from 1 (0: no answer; -1: nothing is asked)."""

    @property
    def source(self) -> TextPair: ...
    @property
    def target(self) -> Int[Tensor, "B 2"]: ...


class Pointers(NamedTuple):
    """Scores of *no answer* (place 0) and of each token of the document (from 1); padding has the lowest number."""

    start: Float[Tensor, "B K1"]
    end: Float[Tensor, "B K1"]


class Reader(nn.Module, ABC):
    def __init__(self, pad: int) -> None:
        super().__init__()
        self.pad = pad

    @abstractmethod
    def point(self, question: Int[Tensor, "B Q"], document: Int[Tensor, "B K"]) -> Pointers: ...

    def forward(self, batch: Batch) -> Loss:
        pointers = torch.stack(self.point(batch.source.question, batch.source.document), dim=2)  # B K1 2
        total = F.cross_entropy(pointers.float(), batch.target, reduction="sum", ignore_index=-1) / 2
        right = (pointers.argmax(1) == batch.target).all(1)
        return Loss(total, int((batch.target[:, 0] >= 0).sum()), right.sum())

    def masked(self, scores: Float[Tensor, "B K1"], real: Bool[Tensor, "B K"]) -> Float[Tensor, "B K1"]:
        """Padding of the document gets the lowest number; no answer, in front, is always there."""
        return scores.masked_fill(~F.pad(real, (1, 0), value=True), torch.finfo(scores.dtype).min)


class PairReader(Reader):
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
        return Pointers(self.masked(start, real), self.masked(end, real))
