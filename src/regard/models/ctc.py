"""Speech to text with joint CTC and attention.

    L = (1 − λ) · −log p_attention(y | x) + λ · −log p_ctc(y | x)
    p_ctc(y | x) = Σ over paths π that become y when repeats and blanks are taken out  Π_t softmax(W h_t)[π_t]

Kim, Hori and Watanabe 2016, section 3 (arXiv:1609.06773); CTC: Graves et al. 2006. h is the memory that the decoder
attends to. CTC can only read from left to right, so it makes the encoder put things in order early on, long before
attention has found out by itself where to look. λ = 0 is Listen, Attend and Spell (arXiv:1508.01211) alone.

The blank is token 0, the padding of every vocabulary, which is never an output. A text that is longer than its
memory has no path; it then trains the decoder only.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.decoders.decoder import Decoder
from regard.encoders.audio import memory_lengths
from regard.layers.loss import Loss, fused_cross_entropy
from regard.models.seq2seq import Seq2Seq, SourceTarget
from regard.models.tie import Tie

BLANK = 0


class SpeechToText(Seq2Seq):
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

    def forward(self, batch: SourceTarget) -> Loss:
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
