"""Decompose the score of a query and a key.

    e_tj = q_t · k_j / √d = Σ_a Σ_b (W_q S a_t) · (W_k S b_j) / √d        A_t = softmax(e_t)

a and b are what the states at t and at j are the sum of (`look/stream_parts.py`): the token, its position, heads and
feed-forwards of the layers before, biases. Either the query or the key is taken apart, and the other one left whole.
Rotary positions turn each part like the whole; a bias by distance is a part of its own. Elhage et al. 2021 ("QK
circuits"). Scores that are linear in both, which dot, scaled dot and bilinear are; the parts add up to the score,
exactly, with norms held as they were.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention import Bilinear, Dot, MultiHead, ScaledDot
from regard.attention.heads import split_heads
from regard.errors import CallError
from regard.look.stream import Block, Reading
from regard.look.stream_parts import stream_parts, through

Side = Literal["keys", "queries"]


@torch.no_grad()
def score_parts(
    reading: Reading, block: Block, layer: int, head: int, row: int, side: Side, *, each_head: bool = False
) -> tuple[list[str], Float[Tensor, "P K"]]:
    """The names of the parts, and what each adds to the scores of a query with all keys. Heads of a layer are one part,
    or one each."""
    attention = block.attention
    if not isinstance(attention, MultiHead) or not isinstance(attention.score, Dot | ScaledDot | Bilinear):
        raise CallError("explain='scores' takes scores that are linear in query and key: dot, scaled_dot or bilinear")
    parts, bias = stream_parts(reading, layer)
    if block.norm_first:
        parts, bias = through(block.attention_norm, reading.states[layer], parts, bias)
    whole = bias + torch.stack([part.added for part in parts]).sum(0)
    grouped: dict[str, Tensor] = {}
    for part in parts:
        name = part.name if each_head or part.layer < 0 else f"{part.kind}.{part.layer}"
        grouped[name] = grouped[name] + part.added if name in grouped else part.added
    apart = torch.stack([*grouped.values(), bias])  # P T D
    own = _vectors(attention, head, apart, side == "keys")
    own[-1] = _vectors(attention, head, bias[None], side == "keys", bias=True)[0]  # with that of the projection
    fixed = _vectors(attention, head, whole[None], side != "keys", bias=True)
    if side == "keys":
        scores = attention.score(fixed[:, [row]], own)[:, 0]
    else:
        scores = attention.score(own[:, [row]], fixed)[:, 0]
    names = [*grouped, "bias"]
    if attention.relative is not None:
        T = scores.shape[-1]
        scores, names = torch.cat([scores, attention.relative(T, T)[head, [row]]]), [*names, "distance"]
    return names, scores[:, : row + 1]


def _vectors(
    attention: MultiHead, head: int, x: Float[Tensor, "P T D"], key: bool, *, bias: bool = False
) -> Float[Tensor, "P T d"]:
    """Queries or keys of one head."""
    queries, keys, _ = attention.sizes
    begin, size = (queries, keys) if key else (0, queries)
    weight = attention.project.weight[begin : begin + size]
    offset = attention.project.bias[begin : begin + size] if bias and attention.project.bias is not None else None
    heads = split_heads(F.linear(x, weight, offset), attention.kv_heads if key else attention.heads)
    turned = heads if attention.rotary is None else attention.rotary(heads)
    return turned[:, head * attention.kv_heads // attention.heads if key else head]
