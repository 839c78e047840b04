"""A bidirectional encoder (BERT): text, or a pair of texts, to a memory.

    x_t = norm(E[y_t] + position_t + segment[type_t]);    N blocks of self-attention;    summary = tanh(W x_0 + b)

Devlin et al. 2018, "BERT", section 3 (arXiv:1810.04805): post-norm blocks, exact GELU, learned positions, a vector for
each segment (question and document, first and second sentence), and a pooled vector of the first token, [CLS].
Each of these is an argument, so that other encoders (norms first, sinusoidal positions, no segments) are the same
class. Without a pooler the summary is the mean of the memory's vectors.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.encoders.text import masked_mean
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.stack import through
from regard.layers.transformer import Block

SPREAD = 0.02  # standard deviation of fresh weights, as in BERT


class Bert(nn.Module):
    def __init__(
        self,
        embedding: Embedding,
        layers: list[Block],
        *,
        embedding_norm: nn.Module | None = None,
        final_norm: nn.Module | None = None,
        token_types: int = 0,
        pooler: bool = False,
        dropout: float = 0.0,
    ) -> None:
        """
        embedding        words and positions; its dropout should be 0, as dropout follows types and norm
        embedding_norm   of the sum of words, positions and types
        final_norm       after the last block, for blocks with norms first
        token_types      number of segment types with a vector; 0: no types
        """
        super().__init__()
        width = layers[0].width
        self.embedding = embedding
        self.types = nn.Embedding(token_types, width) if token_types else None
        self.embedding_norm = embedding_norm or nn.Identity()
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(block.placed("encoder", number) for number, block in enumerate(layers))
        self.norm = final_norm or nn.Identity()
        self.pooler = nn.Linear(width, width) if pooler else None
        if embedding.pad is None:
            raise ValueError("an encoder needs an id for padding, to mask it in attention")
        self.pad = embedding.pad
        self.memory_width = self.summary_width = width
        self._reset_parameters()

    def forward(self, tokens: Int[Tensor, "B S"], types: Int[Tensor, "B S"] | None = None) -> Memory:
        """`types`: the segment of each token; all 0 by default."""
        mask = tokens != self.pad
        x = self.embedding(tokens)
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        elif types is not None:
            raise ValueError("this encoder was built without token_types: remove types")
        x = self.dropout(self.embedding_norm(x))
        x = self.norm(through(self.layers, x, mask))
        return Memory(x, mask, masked_mean(x, mask) if self.pooler is None else self.pooled(x))

    def pooled(self, vectors: Float[Tensor, "B S D"]) -> Float[Tensor, "B D"]:
        assert self.pooler is not None
        return torch.tanh(self.pooler(vectors[:, 0]))

    def freeze(self, layers: int) -> None:
        """Freeze the first `layers` layers and the embeddings."""
        for part in (self.embedding, self.types, self.embedding_norm, *self.layers[:layers]):
            if part is not None:
                part.requires_grad_(False)

    @torch.no_grad()
    def _reset_parameters(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=SPREAD)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        self.embedding.table.weight[self.pad].zero_()
