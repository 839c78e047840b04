"""Encoder and decoder under the names that Marian, Pegasus and BART share.

Sinusoidal positions have all sines before all cosines there, and ours alternate: features 0 … D/2 − 1 and D/2 … D − 1
of every vector between layers become 0 2 4 … and 1 3 5 …, which changes no number that comes out.
"""

import torch
from torch import Tensor

from regard.pretrained.renamed import Renamed, linear

SIDES = ("encoder", "decoder")


def alternating(width: int) -> Tensor:
    """Our order of features, as features of theirs."""
    return torch.arange(width).view(2, -1).T.flatten()


def table(encoder_layers: int, decoder_layers: int, order: Tensor, *, final_norms: bool) -> list[Renamed]:
    """All blocks. `final_norms`: blocks with norms first leave their sum without one."""
    found: list[Renamed] = []
    for side, layers in zip(SIDES, (encoder_layers, decoder_layers), strict=True):
        for number in range(layers):
            found += _block(f"{side}.layers.{number}", f"model.{side}.layers.{number}", order, side == "decoder")
        if final_norms:
            found += linear(f"{side}.norm", f"model.{side}.layer_norm", rows=order)
    return found


def _block(ours: str, theirs: str, order: Tensor, cross: bool) -> list[Renamed]:
    """What reads vectors between layers has its columns in the other order; what writes them, its rows."""
    queries = (f"{theirs}.self_attn.{part}_proj" for part in "qkv")
    found = [
        *linear(f"{ours}.attention.project", *queries, columns=order),
        *linear(f"{ours}.attention.out", f"{theirs}.self_attn.out_proj", rows=order),
        *linear(f"{ours}.attention_norm", f"{theirs}.self_attn_layer_norm", rows=order),
        *linear(f"{ours}.feed_forward.widen", f"{theirs}.fc1", columns=order),
        *linear(f"{ours}.feed_forward.narrow", f"{theirs}.fc2", rows=order),
        *linear(f"{ours}.feed_forward_norm", f"{theirs}.final_layer_norm", rows=order),
    ]
    if cross:
        keys = (f"{theirs}.encoder_attn.{part}_proj" for part in "kv")
        found += [
            *linear(f"{ours}.cross.project", f"{theirs}.encoder_attn.q_proj", columns=order),
            *linear(f"{ours}.cross.project_kv", *keys, columns=order),
            *linear(f"{ours}.cross.out", f"{theirs}.encoder_attn.out_proj", rows=order),
            *linear(f"{ours}.cross_norm", f"{theirs}.encoder_attn_layer_norm", rows=order),
        ]
    return found
