"""Two texts come in: a question, and the document that answers it. A long document is read window by window."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from torch import nn

from regard.data.batches import padded
from regard.inputs.question.data import QuestionData
from regard.inputs.question.files import Asked
from regard.inputs.question.settings import FRAME
from regard.inputs.question.store import Encoded, encode_document, windows
from regard.layers.embedding import Embedding
from regard.look.axis import Axis, Token
from regard.models.reader import TextPair
from regard.settings.encoder import EncoderSettings, PretrainedSettings


class WindowItem(NamedTuple):
    """Both texts; the ids of the question, and of a window of the document, from token `start` of it on."""

    asked: Asked
    question: list[int]
    document: list[int]
    start: int


class QuestionInput(QuestionData):
    kind: ClassVar[str] = "text"  # one field of the service: the question is the first line, the document the rest

    # ------------------------------------------------------------------------------------------------------- one's own
    def document(self, one: Any) -> Encoded:
        """The whole document."""
        return encode_document(self.tokenizer, self.asked(one).document)

    def read(self, one: Any) -> WindowItem:
        """The first window."""
        return next(self.in_windows(one))

    def in_windows(self, one: Any) -> Iterator[WindowItem]:
        """Every window of the document, with the question."""
        asked, ids = self.asked(one), self.document(one).ids.tolist()
        question = self.tokenizer.encode(asked.question)[: self.data.max_question]
        for start, stop in windows(len(ids), self.data.max_length - FRAME - len(question), self.data.overlap):
            yield WindowItem(asked, question, ids[start:stop], start)

    def length(self, item: WindowItem) -> int:
        asked, read = len(item.question), len(item.document)
        return asked + read + FRAME if asked and read else 0

    def collate(self, items: Sequence[WindowItem]) -> TextPair:
        """A text of which nothing is left is padding only."""
        sides = ([item.question for item in items], [item.document for item in items])
        return TextPair(*(padded([np.array(ids or [self.pad]) for ids in side], self.pad) for side in sides))

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        """A Transformer that reads both texts as one; or word vectors, if what is above them reads one text at a
        time."""
        if self.marked:
            return super().encoder(decoder)
        return Embedding(self.tokenizer.size, self.settings.embedding, dropout=self.settings.dropout, pad=self.pad)

    @property
    def marked(self) -> bool:
        """Whether the two are read as one text: <s> question </s> document </s>."""
        return isinstance(self.settings, EncoderSettings | PretrainedSettings)

    # --------------------------------------------------------------------------------------------------------- looking
    def axis(self, item: WindowItem) -> Axis:
        """Both texts, one after the other, with their marks."""
        asked = self.tokens(item.asked.question, item.question)
        shift, words = len(item.asked.question) + 1, 1 + max((token.word or 0 for token in asked), default=0)
        read = [
            replace(token, span=(token.span[0] + shift, token.span[1] + shift), word=(token.word or 0) + words)
            for token in self.tokens(item.asked.document, item.document, item.start)
            if token.span is not None
        ]
        tokens, text = [*asked, *read], " ".join(item.asked)
        if self.marked:
            specials = self.tokenizer.specials
            cls, sep = (Token(specials.names[index], special=True) for index in (specials.start, specials.end))
            tokens = [cls, *asked, sep, *read, sep]
        return Axis(tuple(tokens), text)

    def sides(self, item: WindowItem) -> tuple[slice, slice]:
        """Where the question and the document stand on the axis."""
        mark, asked = int(self.marked), len(item.question)
        first = mark + asked + mark
        return slice(mark, mark + asked), slice(first, first + len(item.document))

    def without(self, item: WindowItem, parts: Collection[int]) -> WindowItem:
        asked = len(item.question)
        question = [index for place, index in enumerate(item.question) if place not in parts]
        document = [index for place, index in enumerate(item.document, asked) if place not in parts]
        return item._replace(question=question, document=document)

    def gather(self, item: WindowItem, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        """Of one call for both texts, or of one for each."""
        return np.concatenate([product.sum(-1) for product in products], axis=1)[:, self.parts(item)]
