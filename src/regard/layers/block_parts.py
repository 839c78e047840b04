"""The parts of a Transformer block: its attentions, norms and feed-forward, with their sizes.

See `transformer` for the equations.
"""

from collections.abc import Callable

from torch import nn

from regard.attention.multihead import MultiHead
from regard.attention.relative import Alibi, RelativeBias
from regard.attention.rotary import Rotary
from regard.attention.score import Score
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import Activation, FeedForward
from regard.layers.norm import NormKind, norm


class BlockParts(nn.Module):
    def __init__(
        self,
        width: int,
        heads: int,
        feed_forward: int,
        *,
        cross: bool = False,
        memory_width: int | None = None,
        norm_first: bool = True,
        norm_kind: NormKind = "layer",
        norm_eps: float | None = None,
        bias: bool = True,
        activation: Activation = "relu",
        gated: bool = False,
        dropout: float = 0.0,
        hidden_dropout: float = 0.0,
        attention_dropout: float = 0.0,
        kv_heads: int | None = None,
        score: Callable[[int], Score] | None = None,
        rotary: Rotary | None = None,
        relative: Alibi | RelativeBias | None = None,
    ) -> None:
        """
        cross          also attend to a memory, of width `memory_width` (`width` if not given)
        norm_eps       ε of the norms, if not the default
        bias           whether linear maps and layer norms have one
        dropout        of the output of each f, as in the paper; torch's layers also have `hidden_dropout`,
                       inside the feed-forward, and `attention_dropout`, of attention's weights
        score          returns a score for vectors of a head's width; called once for each attention of the block
        rotary, relative   positions for the self-attention
        """
        super().__init__()
        self.width, self.norm_first = width, norm_first

        def attention(of_memory: int | None) -> MultiHead:
            own = of_memory is None
            return MultiHead(
                width,
                heads,
                memory_width=of_memory,
                kv_heads=kv_heads,
                score=None if score is None else score(width // heads),
                bias=bias,
                dropout=attention_dropout,
                rotary=rotary if own else None,
                relative=relative if own else None,
            )

        def own_norm() -> nn.Module:
            return norm(width, norm_kind, eps=norm_eps, bias=bias)

        self.attention = attention(None)
        self.attention_norm = own_norm()
        self.cross = attention(memory_width or width) if cross else None
        self.cross_norm = own_norm() if cross else None
        self.feed_forward = FeedForward(
            width, feed_forward, activation=activation, gated=gated, bias=bias, dropout=hidden_dropout
        )
        self.feed_forward_norm = own_norm()
        self.dropout = Dropout(dropout)
