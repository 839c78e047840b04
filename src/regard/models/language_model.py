"""A language model: a Transformer decoder without cross-attention.

    p(y_1 … y_T | y_0) = Π_t softmax(E f_t)[y_t],      f = norm(blocks(E[y_0 … y_{T−1}] + positions))

Radford et al. 2019, "GPT-2", section 2.3: pre-norm blocks, GELU, learned positions, the output layer shares the
embedding's table E. The other choices are those of later models: rotary positions (arXiv:2104.09864), RMS norm
(arXiv:1910.07467), SwiGLU (arXiv:2002.05202), grouped key/value heads (arXiv:2305.13245).

By these choices it is GPT-2 (`activation="gelu_tanh"`), or Llama and its kin (rotary positions in halves, RMS norm,
SwiGLU, grouped heads, no bias), so that their published weights fit.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoders.native_steps import NativeState
from regard.decoders.plain_steps import PlainState
from regard.decoders.transformer_state import TransformerState
from regard.errors import CallError
from regard.layers import packed
from regard.layers.loss import Loss, fused_cross_entropy
from regard.layers.one_row import one_row
from regard.models.language_model_parts import LanguageModelParts
from regard.models.log_probability import log_probability

State = TransformerState | PlainState | NativeState
NO_TOKEN = -1  # the id of padding where a vocabulary has none


@dataclass(frozen=True)
class TextBatch:
    """Token ids, 0 for padding at the end. A row's first token is input only: <s>, or the preceding token of a text."""

    tokens: Int[Tensor, "B T"]

    def to(self, device: torch.device | str) -> "TextBatch":
        return TextBatch(self.tokens.to(device, non_blocking=True))


class LanguageModel(LanguageModelParts):
    """Built with the arguments of `LanguageModelParts`."""

    def forward(self, batch: TextBatch) -> Loss:
        """Return the loss of each token but the first, given the tokens before it."""
        return self.loss(
            self.features(batch.tokens[:, :-1]).flatten(0, 1),
            batch.tokens[:, 1:].flatten(),
            smoothing=self.label_smoothing if self.training else 0.0,
            pad=NO_TOKEN if self.pad is None else self.pad,
        )

    def loss(
        self, features: Float[Tensor, "N D"], targets: Int[Tensor, " N"], *, pad: int, smoothing: float = 0.0
    ) -> Loss:
        """Return −log p of targets, without those equal to `pad`."""
        return fused_cross_entropy(features, self.output.weight, None, targets, smoothing=smoothing, pad=pad)

    def features(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return the features after each token; their `logits` predict the next one."""
        return self.decoder(tokens)

    def logits(self, features: Float[Tensor, "*b D"]) -> Float[Tensor, "*b V"]:
        if features.dim() != 2 or torch.is_grad_enabled():
            return self.output(features)
        return (one_row if len(features) == 1 else packed.linear)(self.output, features)

    def log_probabilities(
        self, features: Float[Tensor, "B T D"], tokens: Int[Tensor, "B T"], instead: int | None = None
    ) -> Float[Tensor, "B T"]:
        """Return log p of each token, given all before it; with `instead`, its margin over that token."""
        return log_probability(self.logits(features), tokens, instead)

    def start(self, rows: int = 1, *, places: int | None = None) -> State:
        """Return the state before the first token of `rows` texts; `places`: preallocate room for this many tokens."""
        return self.decoder.start(copies=rows, places=places)

    def read(self, tokens: Int[Tensor, "N T"], state: State) -> tuple[Float[Tensor, "N D"], State]:
        """Read several tokens at once, such as a prompt, into a state that was started with `places`."""
        if not isinstance(state, TransformerState):
            raise CallError("to read several tokens at once, start with places=...")
        features, state = self.decoder.read(tokens, state)
        return features[:, -1], state

    def step(self, tokens: Int[Tensor, " N"], state: State) -> tuple[Float[Tensor, "N D"], State]:
        return self.decoder.step(tokens, state)
