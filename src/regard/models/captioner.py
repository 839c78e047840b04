"""Captions of pictures. A recurrent decoder with attention can be trained to attend to all regions equally:

    L = Σ_t −log p(y_t | y_<t, image)  +  λ Σ_i (1 − Σ_t α_{t,i})²

"Doubly stochastic attention" (Xu et al. 2015, section 4.2.1, equation 14, arXiv:1502.03044): a decoder's weights
sum to one over regions; the penalty makes them sum to one over words, too. It is used in training only.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.decoders.decoder import Decoder
from regard.layers.loss import Loss, fused_cross_entropy
from regard.models.seq2seq import Seq2Seq, SourceTarget
from regard.models.tie import Tie
from regard.special_tokens import START


class Captioner(Seq2Seq):
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

    def forward(self, batch: SourceTarget) -> Loss:
        if not (self.training and self.doubly_stochastic):
            return super().forward(batch)
        features, weights = self._watched(self.encode(batch.source), batch.target)
        loss = fused_cross_entropy(
            features.flatten(0, 1), self.output.weight, self.output.bias, batch.target.flatten(),
            smoothing=self.label_smoothing, pad=self.pad,
        )  # fmt: skip
        written = (batch.target != self.pad).unsqueeze(2)
        penalty = ((1 - (weights * written).sum(1)) ** 2)[written.any(1).squeeze(1)].sum()
        return Loss(loss.total + self.doubly_stochastic * penalty, loss.count, loss.correct)

    def _watched(self, memory: Memory, target: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T D"], Tensor]:
        """Return features, and the weights of every step with their gradient: `B T K`."""
        state = self.start(memory, watch=True)
        features, weights = [], []
        for tokens in torch.cat([torch.full_like(target[:, :1], START), target[:, :-1]], dim=1).unbind(1):
            feature, state = self.step(tokens, state)
            features.append(feature)
            weights.append(state.weights)
        return torch.stack(features, dim=1), torch.stack(weights, dim=1)
