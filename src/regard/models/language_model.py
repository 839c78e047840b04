"""A language model: a Transformer decoder without cross-attention.

    p(y_1 … y_T | y_0) = Π_t softmax(E f_t)[y_t],      f = norm(blocks(E[y_0 … y_{T−1}] + positions))

Radford et al. 2019, "GPT-2", section 2.3: pre-norm blocks, GELU, learned positions, the output layer shares the
embedding's table E. The other choices are those of later models: rotary positions (arXiv:2104.09864), RMS norm
(arXiv:1910.07467), SwiGLU (arXiv:2002.05202), grouped key/value heads (arXiv:2305.13245).

By these choices it is GPT-2 (`activation="gelu_tanh"`), or Llama and its kin (rotary positions in halves, RMS norm,
SwiGLU, grouped heads, no bias), so that their published weights fit.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Alibi, Learned, Rotary, Sinusoidal
from regard.attention.positions import LearnedTextAndGrid
from regard.decoders.native_steps import NativeState
from regard.decoders.plain_steps import PlainState
from regard.decoders.transformer import TransformerDecoder, TransformerState
from regard.errors import CallError
from regard.layers import packed
from regard.layers.embedding import Embedding
from regard.layers.feed_forward import NormKind, norm
from regard.layers.loss import OutputLoss, fused_cross_entropy
from regard.layers.quantized import one_row
from regard.layers.transformer import Block
from regard.models.seq2seq import log_probability

Positions = Literal["learned", "sinusoidal", "rotary", "alibi", "none"]
Activation = Literal["gelu", "gelu_tanh", "relu", "swiglu"]
SPREAD = 0.02  # standard deviation of fresh weights, as in GPT-2


class LanguageModelParts(nn.Module):
    """The parts of a language model: blocks, positions, sizes, and initial weights.

    See `language_model` for the equations.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        heads: int,
        layers: int,
        *,
        feed_forward: int | None = None,
        max_length: int = 1024,
        positions: Positions | LearnedTextAndGrid = "learned",
        rotary_base: float = 10000.0,
        norm_kind: NormKind = "layer",
        norm_eps: float | None = None,
        activation: Activation = "gelu",
        bias: bool = True,
        kv_heads: int | None = None,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        tied: bool = True,
        label_smoothing: float = 0.0,
        pad: int | None = 0,
    ) -> None:
        """
        feed_forward   width inside the feed-forward layers: 4 · width, or 8/3 · width for swiglu (three matrices)
        max_length   longest text that learned positions know
        positions    by name, or a table of its own that is added to the vectors
        rotary_base  of the angles by which rotary positions turn (theta); features turn in halves
        attention_dropout   of attention's weights; by default `dropout`, as in GPT-2; 0 keeps the fused kernel in use
        pad          the id of padding, which is never a target; None where a vocabulary has none
        bias         whether linear maps and layer norms have one; swiglu never has
        tied         share the output layer's matrix with the embedding
        """
        super().__init__()
        if layers < 1:
            raise CallError(f"layers={layers} must be at least 1")
        gated = activation == "swiglu"
        feed_forward = feed_forward or (math.ceil(8 * width / 3) if gated else 4 * width)
        added = None  # positions that are added to the vectors; the others act inside attention
        if isinstance(positions, LearnedTextAndGrid):
            added = positions
        elif positions in ("learned", "sinusoidal"):
            added = Learned(width, max_length) if positions == "learned" else Sinusoidal(width)
        rotary = Rotary(width // heads, base=rotary_base, halves=True) if positions == "rotary" else None
        relative = Alibi(heads) if positions == "alibi" else None
        embedding = Embedding(vocabulary, width, positions=added, scaled=False, dropout=dropout, pad=pad)
        blocks = [
            Block(
                width,
                heads,
                feed_forward,
                norm_kind=norm_kind,
                norm_eps=norm_eps,
                bias=bias,
                activation="gelu" if activation == "swiglu" else activation,
                gated=gated,
                dropout=dropout,
                attention_dropout=dropout if attention_dropout is None else attention_dropout,
                kv_heads=kv_heads,
                rotary=rotary,
                relative=relative,
            )
            for _ in range(layers)
        ]
        self.decoder = TransformerDecoder(embedding, blocks, final_norm=norm(width, norm_kind, eps=norm_eps, bias=bias))
        self.output = nn.Linear(width, vocabulary, bias=False)
        self.label_smoothing, self.pad = label_smoothing, pad
        self._reset_parameters(layers)
        if tied:
            self.output.weight = embedding.table.weight

    @torch.no_grad()
    def _reset_parameters(self, layers: int) -> None:
        """GPT-2's: N(0, 0.02²), and less for what is added to the shortcut, which sums 2 · layers such parts."""
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                last = name.endswith((".attention.out", ".feed_forward.narrow"))
                nn.init.normal_(module.weight, std=SPREAD / math.sqrt(2 * layers) if last else SPREAD)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        table = self.decoder.embedding.table.weight
        nn.init.normal_(table, std=SPREAD)
        if self.pad is not None:
            table[self.pad].zero_()


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

    def forward(self, batch: TextBatch) -> OutputLoss:
        """Return the loss of each token but the first, given the tokens before it."""
        return self.loss(
            self.features(batch.tokens[:, :-1]).flatten(0, 1),
            batch.tokens[:, 1:].flatten(),
            smoothing=self.label_smoothing if self.training else 0.0,
            pad=NO_TOKEN if self.pad is None else self.pad,
        )

    def loss(
        self, features: Float[Tensor, "N D"], targets: Int[Tensor, " N"], *, pad: int, smoothing: float = 0.0
    ) -> OutputLoss:
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
