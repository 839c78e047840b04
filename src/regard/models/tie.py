"""Weight tying: one table for output layer and embeddings.

"output": the output layer's matrix is the decoder's embedding table (Press and Wolf 2016, arXiv:1608.05859); "all": and
the encoder's table, too, which takes one vocabulary for both sides.
"""

from typing import Literal

from torch import nn

from regard.errors import CallError
from regard.layers.embedding import Embedding

Tie = Literal["none", "output", "all"]


def tie_tables(output: nn.Linear, encoder: nn.Module, embedding: Embedding, tie: Tie) -> None:
    """`embedding`: the decoder's."""
    if tie != "none":
        width = output.in_features
        if embedding.width != width:
            raise CallError(f"tie={tie!r} needs features of the embedding's width: {width} is not {embedding.width}")
        output.weight = embedding.table.weight
    if tie == "all":
        source = encoder.embedding
        if not isinstance(source, Embedding):
            raise CallError("tie='all' needs an encoder that embeds tokens")
        if source.table.weight.shape != embedding.table.weight.shape:
            raise CallError(
                f"tie='all' needs one table for both sides: the encoder's is {tuple(source.table.weight.shape)}, "
                f"the decoder's {tuple(embedding.table.weight.shape)}"
            )
        source.table.weight = embedding.table.weight
