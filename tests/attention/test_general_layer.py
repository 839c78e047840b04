"""The general attention layer and its special cases."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard.attention import (
    Additive,
    Attention,
    CrossAttention,
    Dot,
    ScaledDot,
    SelfAttention,
    Trace,
    attend,
    masks,
    self_attention,
)

X, MEMORY = torch.randn(2, 5, 6), torch.randn(2, 7, 4)


def test_parameter_free_self_attention_is_its_formula():
    v = torch.randn(5, 3)
    assert_close(self_attention(v), torch.softmax(v @ v.T / math.sqrt(3), dim=-1) @ v)
    # Two equal vectors among themselves stay what they are; a third, far away, does not disturb them.
    v = torch.tensor([[9.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    assert_close(self_attention(v), v)


def test_the_layer_grows_step_by_step():
    nothing = Attention(Dot(), 6, 6)  # no projections at all
    assert not list(nothing.parameters())
    assert_close(nothing(X, X), attend(Dot(), X, X, X)[0])

    keys_and_values = Attention(ScaledDot(), 6, 4, key_width=3, value_width=9)
    y = keys_and_values(X, MEMORY)
    assert y.shape == (2, 5, 9)  # the width is that of the values
    expected = F.scaled_dot_product_attention(
        keys_and_values.query(X), keys_and_values.key(MEMORY), keys_and_values.value(MEMORY)
    )
    assert_close(y, expected)

    one_query = Attention(Additive(6, 4, 8), 6, 4)
    assert one_query(X[:, :1], MEMORY).shape == (2, 1, 4)

    networks = Attention(ScaledDot(), 6, 4, key_width=3, value_width=9, hidden=11)
    assert isinstance(networks.key, nn.Sequential)
    assert networks(X, MEMORY).shape == (2, 5, 9)


@pytest.mark.parametrize("score", [None, Additive(6, 6, 5)])
def test_self_attention_masked(score):
    layer = SelfAttention(6, score=score).eval()
    before = layer(X, causal=True)
    changed = X.clone()
    changed[:, 3:] = 7.0
    assert_close(layer(changed, causal=True)[:, :3], before[:, :3])
    assert_close(layer(X, masks.causal(5, 5)), before)


def test_cross_attention_and_trace():
    layer = CrossAttention(6, 4, 8).eval()
    mask = masks.padding(torch.tensor([3, 7]), 7)
    y = layer(X, MEMORY, mask)
    with Trace() as seen:
        assert_close(layer(X, MEMORY, mask), y)
    assert seen["CrossAttention"].shape == (2, 5, 7)
    assert (seen["CrossAttention"][0, :, 3:] == 0).all()
    model = SelfAttention(6).eval()
    with Trace() as seen:
        model(X)
    assert seen.names == ["attention"]
