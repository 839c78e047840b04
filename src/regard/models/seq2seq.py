"""Sequence to sequence: an encoder makes a memory, a decoder attends to it, an output layer names the next token.

    p(y | x) = Π_t p(y_t | y_<t, x) = Π_t softmax(W f_t)[y_t],     f = decoder(<s> y_1 … y_{T−1}, encoder(x))

Sutskever et al. 2014 (arXiv:1409.3215). Whatever encodes into a `Memory` and decodes by the step protocol fits.
"""

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.decoders.decoder import Decoder
from regard.layers import packed
from regard.layers.loss import Loss, fused_cross_entropy
from regard.models.log_probability import log_probability
from regard.models.tie import Tie, tie_tables
from regard.special_tokens import START


@runtime_checkable
class SourceTarget(Protocol):
    """What the model is trained on: any batch with these two.

    Targets are ids with </s> at the end, no <s> at the start, and 0 for padding. The source is what the encoder reads.
    """

    @property
    def source(self) -> Any: ...
    @property
    def target(self) -> Tensor: ...


class Seq2Seq(nn.Module):
    def __init__(
        self,
        encoder: nn.Module,
        decoder: Decoder,
        *,
        tie: Tie = "output",
        bias: bool = False,
        label_smoothing: float = 0.0,
        pad: int = 0,
    ) -> None:
        """
        tie   which tables are one, see `models/tie.py`
        bias  whether the output layer has one: how frequent a token is, whatever the context
        """
        super().__init__()
        self.encoder, self.decoder, self.label_smoothing, self.pad = encoder, decoder, label_smoothing, pad
        embedding, width = decoder.embedding, decoder.feature_width
        self.output = nn.Linear(width, embedding.vocabulary, bias=bias)
        nn.init.normal_(self.output.weight, std=width**-0.5)
        if bias:
            nn.init.zeros_(self.output.bias)
        tie_tables(self.output, encoder, embedding, tie)

    def forward(self, batch: SourceTarget) -> Loss:
        features = self.features(self.encode(batch.source), batch.target)
        return fused_cross_entropy(
            features.flatten(0, 1),
            self.output.weight,
            self.output.bias,
            batch.target.flatten(),
            smoothing=self.label_smoothing if self.training else 0.0,
            pad=self.pad,
        )

    def encode(self, source: Any) -> Memory:
        return self.encoder(source)

    def features(self, memory: Memory, target: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """What the decoder knows before each token of the target: it reads the target one place behind, after <s>."""
        begin = torch.full_like(target[:, :1], START)
        return self.decoder(torch.cat([begin, target[:, :-1]], dim=1), memory)

    def logits(self, features: Float[Tensor, "*b D"]) -> Float[Tensor, "*b V"]:
        return packed.linear(self.output, features) if features.dim() == 2 else self.output(features)

    def score(self, source: Any, target: Int[Tensor, "B T"], instead: int | None = None) -> Float[Tensor, "B T"]:
        """log p(y_t | y_<t, x) of each token of the target, 0 for padding; a row's sum is log p(y | x). Of `instead`,
        how far each is ahead of that token, in its own place."""
        features = self.features(self.encode(source), target)
        rows = [
            log_probability(self.logits(row), tokens, instead)
            for row, tokens in zip(features, target, strict=True)  # a row at a time: the table B T V would be large
        ]
        return torch.stack(rows).masked_fill(target == self.pad, 0.0)

    def score_steps(
        self,
        source: Any,
        target: Int[Tensor, "B T"],
        rows: Int[Tensor, " N"],
        steps: Int[Tensor, " N"],
        instead: int | None = None,
    ) -> Float[Tensor, " N"]:
        """log p(y_t | y_<t, x) of some rows at some steps: nothing after the last of these steps is computed."""
        features = self.features(self.encode(source), target[:, : int(steps.max()) + 1])[rows, steps]
        return log_probability(self.logits(features), target[rows, steps], instead)

    def start(self, memory: Memory, copies: int = 1, *, watch: bool = False) -> Any:
        return self.decoder.start(memory, copies, watch=watch)

    def step(self, tokens: Int[Tensor, " N"], state: Any) -> tuple[Float[Tensor, "N D"], Any]:
        return self.decoder.step(tokens, state)
