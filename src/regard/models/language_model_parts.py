"""The parts of a language model: blocks, positions, sizes, and initial weights.

See `language_model` for the equations.
"""

import math
from typing import Literal

import torch
from torch import nn

from regard.attention import Alibi, Learned, Rotary, Sinusoidal
from regard.attention.grid_positions import LearnedTextAndGrid
from regard.decoders.transformer import TransformerDecoder
from regard.errors import CallError
from regard.layers.embedding import Embedding
from regard.layers.norm import NormKind, norm
from regard.layers.transformer import Block

Positions = Literal["learned", "sinusoidal", "rotary", "alibi", "none"]
Activation = Literal["gelu", "gelu_tanh", "relu", "swiglu"]
SPREAD = 0.02  # standard deviation of fresh weights, as in GPT-2


class LanguageModelParts(nn.Module):
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
