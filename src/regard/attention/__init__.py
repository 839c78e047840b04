"""Attention: scores, attend, multi-head, masks, positions, and traces of the weights.

One idea a file; each starts with its equation and its paper.
"""

from regard.attention import masks
from regard.attention.attend import attend
from regard.attention.layer import Attention, CrossAttention, SelfAttention, self_attention
from regard.attention.masks import HeadMask
from regard.attention.memory import KeyValue, Memory
from regard.attention.multihead import MultiHead
from regard.attention.positions import (
    Alibi,
    Combine,
    Learned,
    LearnedGrid,
    RelativeBias,
    Rotary,
    Sinusoidal,
    SinusoidalGrid,
    sinusoids,
)
from regard.attention.score import DotForm, Score, TanhForm
from regard.attention.scores import Additive, Bilinear, Concat, Cosine, Dot, ScaledDot, Trilinear
from regard.attention.streaming import streaming_attention
from regard.attention.trace import Trace, tracing

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
