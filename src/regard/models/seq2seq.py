"""Sequence to sequence: an encoder makes a memory, a decoder attends to it, an output layer names the next token.

    p(y | x) = Π_t p(y_t | y_<t, x) = Π_t softmax(W f_t)[y_t],     f = decoder(<s> y_1 … y_{T−1}, encoder(x))

Sutskever et al. 2014 (arXiv:1409.3215). Whatever encodes into a `Memory` and decodes by the step protocol fits.
"""

from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.decoders.decoder import Decoder
from regard.encoders.audio import memory_lengths
from regard.layers import packed
from regard.layers.embedding import Tie, tie_tables
from regard.layers.loss import OutputLoss, fused_cross_entropy
from regard.special_tokens import START

# What a model thinks of a token, or of its lead over another one.
#
# log p(y) = z_y − log Σ_v exp z_v        log p(y) − log p(y′) = z_y − z_y′: what both share is gone


def log_probability(
    logits: Float[Tensor, "*b V"], tokens: Int[Tensor, " *b"], instead: int | None = None
) -> Float[Tensor, " *b"]:
    """Of each token; less that of `instead`, where one is given: why this one, and not that one."""
    table = logits.log_softmax(-1, dtype=torch.float32)
    own = table.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return own if instead is None else own - table[..., instead]


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
        tie   which tables are one, see `layers/embedding.py`
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

    def forward(self, batch: SourceTarget) -> OutputLoss:
        features = self.features(self.encode(batch.source), batch.target)  # (B, T, D)
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
        begin = torch.full_like(target[:, :1], START)  # (B, 1)
        return self.decoder(torch.cat([begin, target[:, :-1]], dim=1), memory)

    def logits(self, features: Float[Tensor, "*b D"]) -> Float[Tensor, "*b V"]:
        return packed.linear(self.output, features) if features.dim() == 2 else self.output(features)

    def score(self, source: Any, target: Int[Tensor, "B T"], instead: int | None = None) -> Float[Tensor, "B T"]:
        """log p(y_t | y_<t, x) of each token of the target, 0 for padding; a row's sum is log p(y | x). Of `instead`,
        how far each is ahead of that token, in its own place."""
        features = self.features(self.encode(source), target)
        rows = [
            log_probability(self.logits(row), tokens, instead)
            for row, tokens in zip(
                features, target, strict=True
            )  # a row at a time: (T, V) each, as (B, T, V) would be large
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


BLANK = 0


class SpeechToText(Seq2Seq):
    """Speech to text with joint CTC and attention.

        L = (1 − λ) · −log p_attention(y | x) + λ · −log p_ctc(y | x)
        p_ctc(y | x) = Σ over paths π that become y when repeats and blanks are taken out  Π_t softmax(W h_t)[π_t]

    Kim, Hori and Watanabe 2016, section 3 (arXiv:1609.06773); CTC: Graves et al. 2006. h is the memory that the
    decoder attends to. CTC can only read from left to right, so it makes the encoder put things in order early on,
    long before attention has found out by itself where to look. λ = 0 is Listen, Attend and Spell
    (arXiv:1508.01211) alone.

    The blank is token 0, the padding of every vocabulary, which is never an output. A text that is longer than its
    memory has no path; it then trains the decoder only.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: Decoder,
        *,
        tie: Tie = "none",
        bias: bool = False,
        label_smoothing: float = 0.0,
        ctc: float = 0.0,
    ) -> None:
        """`ctc`: λ above; 0 leaves CTC and its layer out."""
        super().__init__(encoder, decoder, tie=tie, bias=bias, label_smoothing=label_smoothing)
        self.ctc_weight = ctc
        width = encoder.memory_width
        assert isinstance(width, int)
        self.ctc = nn.Linear(width, decoder.embedding.vocabulary) if ctc else None

    def forward(self, batch: SourceTarget) -> OutputLoss:
        memory = self.encode(batch.source)
        loss = fused_cross_entropy(
            self.features(memory, batch.target).flatten(0, 1),
            self.output.weight,
            self.output.bias,
            batch.target.flatten(),
            smoothing=self.label_smoothing if self.training else 0.0,
            pad=self.pad,
        )
        if self.ctc is None:
            return loss
        lengths = (batch.target != self.pad).sum(1)
        total = F.ctc_loss(
            self.ctc_scores(memory).transpose(0, 1),
            batch.target,
            memory_lengths(memory),
            (lengths - 1).clamp(min=0),  # without </s>
            blank=BLANK,
            reduction="none",
            zero_infinity=True,
        )
        total = total[lengths > 0].sum()  # rows of padding only do not count
        return loss._replace(total=(1 - self.ctc_weight) * loss.total + self.ctc_weight * total)

    def ctc_scores(self, memory: Memory) -> Float[Tensor, "B K V"]:
        """Return log p(token or blank) at each vector of the memory."""
        if self.ctc is None:
            raise ValueError("this model was built with ctc=0: it has no CTC layer")
        return self.ctc(memory.vectors).log_softmax(-1, dtype=torch.float32)


class Captioner(Seq2Seq):
    """Captions of pictures. A recurrent decoder with attention can be trained to attend to all regions equally:

        L = Σ_t −log p(y_t | y_<t, image)  +  λ Σ_i (1 − Σ_t α_{t,i})²

    "Doubly stochastic attention" (Xu et al. 2015, section 4.2.1, equation 14, arXiv:1502.03044): a decoder's
    weights sum to one over regions; the penalty makes them sum to one over words, too. It is used in training only.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: Decoder,
        *,
        tie: Tie = "none",
        bias: bool = False,
        label_smoothing: float = 0.0,
        doubly_stochastic: float = 0.0,
    ) -> None:
        super().__init__(encoder, decoder, tie=tie, bias=bias, label_smoothing=label_smoothing)
        self.doubly_stochastic = doubly_stochastic

    def forward(self, batch: SourceTarget) -> OutputLoss:
        if not (self.training and self.doubly_stochastic):
            return super().forward(batch)
        features, weights = self._attend_watched(self.encode(batch.source), batch.target)  # (B, T, D), (B, T, K)
        loss = fused_cross_entropy(
            features.flatten(0, 1), self.output.weight, self.output.bias, batch.target.flatten(),
            smoothing=self.label_smoothing, pad=self.pad,
        )  # fmt: skip
        written = (batch.target != self.pad).unsqueeze(2)  # (B, T, 1)
        penalty = ((1 - (weights * written).sum(1)) ** 2)[written.any(1).squeeze(1)].sum()
        return OutputLoss(loss.total + self.doubly_stochastic * penalty, loss.count, loss.correct)

    def _attend_watched(self, memory: Memory, target: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T D"], Tensor]:
        """Return features, and the weights of every step with their gradient: `B T K`."""
        state = self.start(memory, watch=True)
        features, weights = [], []
        for tokens in torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], dim=1).unbind(1):
            feature, state = self.step(tokens, state)
            features.append(feature)
            weights.append(state.weights)
        return torch.stack(features, dim=1), torch.stack(weights, dim=1)
