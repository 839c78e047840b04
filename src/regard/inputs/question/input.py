"""Two texts as input: a question and the document that answers it. A long document is read in windows."""

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from torch import nn

from regard.data.batches import padded
from regard.inputs.question.data import QuestionData
from regard.inputs.question.windows import WindowItem
from regard.layers.embedding import Embedding
from regard.models.reader import TextPair
from regard.settings.encoder import EncoderSettings, PretrainedSettings


class QuestionInput(QuestionData):
    kind: ClassVar[str] = "text"  # one field of the service: the question is the first line, the document the rest

    def collate(self, items: Sequence[WindowItem]) -> TextPair:
        """Return a batch; an empty text is padding only."""
        sides = ([item.question for item in items], [item.document for item in items])
        return TextPair(*(padded([np.array(ids or [self.pad]) for ids in side], self.pad) for side in sides))

    # ------------------------------------------------------------------------------------------------------- the model
    def encoder(self, decoder: Any = None) -> nn.Module:
        """Build a Transformer that reads both texts as one, or word vectors if the layers above
        read one text at a time.
        """
        if self.marked:
            return super().encoder(decoder)
        return Embedding(self.tokenizer.size, self.settings.embedding, dropout=self.settings.dropout, pad=self.pad)

    @property
    def marked(self) -> bool:
        return isinstance(self.settings, EncoderSettings | PretrainedSettings)

    # ---------------------------------------------------------------------------------------------------- explanations
    def without(self, item: WindowItem, parts: Collection[int]) -> WindowItem:
        asked = len(item.question)
        question = [index for place, index in enumerate(item.question) if place not in parts]
        document = [index for place, index in enumerate(item.document, asked) if place not in parts]
        return item._replace(question=question, document=document)

    def gather(self, item: WindowItem, products: Sequence[np.ndarray]) -> Float[np.ndarray, "N P"]:
        """Sum gradients of one call for both texts, or of one call for each."""
        return np.concatenate([product.sum(-1) for product in products], axis=1)[:, self.parts(item)]
