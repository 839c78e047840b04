"""The recurrent decoder over tokens: a language model conditioned on a memory.

    p(y_t | y_<t, x) = softmax(W f_t)[y_t],      x_t = E[y_{t−1}],  f_t as in `recurrent`

It starts from <s>, and each output token is the next input.
"""

from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.memory import Memory
from regard.attention.score import Score
from regard.decoders.decoder import Decoder
from regard.decoders.recurrent import RecurrentReader
from regard.decoders.recurrent_parts import Context
from regard.decoders.recurrent_state import RecurrentState
from regard.layers.embedding import Embedding


class RecurrentDecoder(RecurrentReader, Decoder):
    """A recurrent decoder with token inputs."""

    def __init__(
        self,
        embedding: Embedding,
        width: int,
        *,
        memory_width: int,
        summary_width: int,
        context: Context = "previous",
        score: Score | None = None,
        input_feeding: bool = False,
        gated: bool = False,
        cell: Literal["gru", "lstm"] = "gru",
        depth: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            embedding.width_out, embedding.width, width, memory_width=memory_width, summary_width=summary_width,
            context=context, score=score, input_feeding=input_feeding, gated=gated, cell=cell, depth=depth,
            dropout=dropout,
        )  # fmt: skip
        self.embedding = embedding

    def forward(self, tokens: Int[Tensor, "B T"], memory: Memory) -> Float[Tensor, "B T E"]:
        return self.read(self.embedding(tokens), memory)

    def step(self, tokens: Int[Tensor, " N"], state: RecurrentState) -> tuple[Float[Tensor, "N E"], RecurrentState]:
        return self.step_with(self.embedding(tokens.unsqueeze(1), 0), state)
