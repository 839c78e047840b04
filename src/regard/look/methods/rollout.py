"""Attention rollout: how much of each input token arrives at each position, through all layers.

    Ã_l = ½ (A_l + I)                      A_l: the mean over heads; I: the residual connection
    R   = Ã_L … Ã_2 Ã_1                    every row of R sums to one, as every row of each Ã does

Abnar and Zuidema 2020, section 3 (arXiv:2005.00928), for encoders. Where we differ: a decoder with cross-attention C_l
is followed the same way, in two tables, one over what it has written (P, from I) and one over the source (M, from 0):

    self-attention    P ← Ã_l P,       M ← Ã_l M
    cross-attention   P ← ½ P,         M ← ½ (M + C_l R)        R: the encoder's rollout

so that each row of [P, M] together sums to one. Feed-forward layers and the sizes of vectors are not looked at.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


def rollout(layers: Sequence[Float[np.ndarray, "H K K"]]) -> Float[np.ndarray, "K K"]:
    """Of self-attention, first layer first."""
    result = np.eye(layers[0].shape[-1])
    for weights in layers:
        result = _with_shortcut(weights) @ result
    return result


def decoder_rollout(
    own: Sequence[Float[np.ndarray, "H T T"]],
    cross: Sequence[Float[np.ndarray, "H T S"]],
    encoder: Float[np.ndarray, "S S"],
) -> tuple[Float[np.ndarray, "T T"], Float[np.ndarray, "T S"]]:
    """What arrives at each step: of the tokens that were read before it, and of the source."""
    written = np.eye(own[0].shape[-1])
    source = np.zeros(cross[0].shape[-2:])
    for to_self, to_source in zip(own, cross, strict=True):
        step = _with_shortcut(to_self)
        written, source = step @ written / 2, (step @ source + to_source.mean(axis=0) @ encoder) / 2
    return written, source


def _with_shortcut(weights: Float[np.ndarray, "H K K"]) -> Float[np.ndarray, "K K"]:
    return (weights.mean(axis=0) + np.eye(weights.shape[-1])) / 2
