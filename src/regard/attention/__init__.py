"""Attention: scores, attend, multi-head, masks, positions, and traces of the weights.

One idea a file; each starts with its equation and its paper.
"""

from regard.attention import masks
from regard.attention.additive import Additive
from regard.attention.attend import attend
from regard.attention.bilinear import Bilinear
from regard.attention.cache import KeyValue
from regard.attention.concat import Concat
from regard.attention.cosine import Cosine
from regard.attention.dot import Dot
from regard.attention.grid_positions import LearnedGrid, SinusoidalGrid
from regard.attention.head_mask import HeadMask
from regard.attention.layer import Attention, CrossAttention, SelfAttention, self_attention
from regard.attention.learned import Learned
from regard.attention.memory import Memory
from regard.attention.multihead import MultiHead
from regard.attention.positions import Combine
from regard.attention.relative import Alibi, RelativeBias
from regard.attention.rotary import Rotary
from regard.attention.scaled_dot import ScaledDot
from regard.attention.score import DotForm, Score, TanhForm
from regard.attention.sinusoidal import Sinusoidal, sinusoids
from regard.attention.streaming import streaming_attention
from regard.attention.trace import Trace, tracing
from regard.attention.trilinear import Trilinear

__all__ = [
    "Additive",
    "Alibi",
    "Attention",
    "Bilinear",
    "Combine",
    "Concat",
    "Cosine",
    "CrossAttention",
    "Dot",
    "DotForm",
    "HeadMask",
    "KeyValue",
    "Learned",
    "LearnedGrid",
    "Memory",
    "MultiHead",
    "RelativeBias",
    "Rotary",
    "ScaledDot",
    "Score",
    "SelfAttention",
    "Sinusoidal",
    "SinusoidalGrid",
    "TanhForm",
    "Trace",
    "Trilinear",
    "attend",
    "masks",
    "self_attention",
    "sinusoids",
    "streaming_attention",
    "tracing",
]
