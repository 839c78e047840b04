"""Blocks against torch's own Transformer layers, embeddings and norms by hand."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.attention.memory import Memory
from regard.attention.positions import Sinusoidal, sinusoids
from regard.layers.embedding import Embedding
from regard.layers.feed_forward import FeedForward, norm
from regard.layers.transformer import Block

WIDTH, HEADS, HIDDEN = 12, 3, 17


def copy_attention(ours, theirs):
    if ours.memory_width is None:
        ours.project.weight.data.copy_(theirs.in_proj_weight)
        ours.project.bias.data.copy_(theirs.in_proj_bias)
    else:
        query, memory = theirs.in_proj_weight.split([WIDTH, 2 * WIDTH])
        ours.project.weight.data.copy_(query)
        ours.project_kv.weight.data.copy_(memory)
        ours.project.bias.data.copy_(theirs.in_proj_bias[:WIDTH])
        ours.project_kv.bias.data.copy_(theirs.in_proj_bias[WIDTH:])
    ours.out.load_state_dict(theirs.out_proj.state_dict())


def shake(module):
    """Norms and biases start as ones and zeros, which would hide mistakes."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)


def padded_mask(rows, size):
    return torch.arange(size) < torch.tensor([size, size - 2, 1, size - 1, 2])[:rows, None]


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_block_is_torch_encoder_layer(norm_first, activation):
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first
    )
    shake(theirs)
    ours = Block(WIDTH, HEADS, HIDDEN, norm_first=norm_first, activation=activation)
    copy_attention(ours.attention, theirs.self_attn)
    ours.attention_norm.load_state_dict(theirs.norm1.state_dict())
    ours.feed_forward_norm.load_state_dict(theirs.norm2.state_dict())
    ours.feed_forward.widen.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.narrow.load_state_dict(theirs.linear2.state_dict())
    x, mask = torch.randn(5, 7, WIDTH), padded_mask(5, 7)
    torch.testing.assert_close(ours(x, mask)[mask], theirs(x, src_key_padding_mask=~mask)[mask], rtol=1e-4, atol=1e-5)
    future = nn.Transformer.generate_square_subsequent_mask(7)
    torch.testing.assert_close(ours(x, causal=True), theirs(x, src_mask=future), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_first", [True, False])
def test_block_is_torch_decoder_layer(norm_first):
    torch.manual_seed(0)
    theirs = nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=norm_first)
    shake(theirs)
    ours = Block(WIDTH, HEADS, HIDDEN, cross=True, norm_first=norm_first)
    copy_attention(ours.attention, theirs.self_attn)
    copy_attention(ours.cross, theirs.multihead_attn)
    for part, other in ((ours.attention_norm, "norm1"), (ours.cross_norm, "norm2"), (ours.feed_forward_norm, "norm3")):
        part.load_state_dict(getattr(theirs, other).state_dict())
    ours.feed_forward.widen.load_state_dict(theirs.linear1.state_dict())
    ours.feed_forward.narrow.load_state_dict(theirs.linear2.state_dict())
    x, vectors, mask = torch.randn(5, 4, WIDTH), torch.randn(5, 7, WIDTH), padded_mask(5, 7)
    future = nn.Transformer.generate_square_subsequent_mask(4)
    expected = theirs(x, vectors, tgt_mask=future, memory_key_padding_mask=~mask)
    got = ours(x, causal=True, memory=Memory(vectors, mask, vectors[:, 0]))
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)

    kept, memory, past = [], ours.cross.project_memory(vectors), None
    for t in range(4):
        y, past = ours.step(x[:, t : t + 1], past, memory, mask)
        kept.append(y)
    torch.testing.assert_close(torch.cat(kept, 1), expected, rtol=1e-4, atol=1e-5)


def test_gated_feed_forward_by_its_equation():
    layer = FeedForward(5, 7, gated=True)
    w1, w3 = layer.widen.weight.chunk(2)
    x = torch.randn(3, 2, 5)
    expected = (F.silu(x @ w1.T) * (x @ w3.T)) @ layer.narrow.weight.T
    torch.testing.assert_close(layer(x), expected)
    assert sum(p.numel() for p in layer.parameters()) == 3 * 5 * 7


def test_norms_by_hand():
    x = torch.tensor([1.0, 3.0])
    torch.testing.assert_close(norm(2)(x), torch.tensor([-1.0, 1.0]), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(norm(2, "rms")(x), x / math.sqrt(5.0))


@pytest.mark.parametrize("combine", ["add", "concat"])
def test_embedding_scales_and_knows_its_position(combine):
    positions = Sinusoidal(6, combine=combine)
    embedding = Embedding(11, 6, positions=positions)
    tokens = torch.tensor([[4, 9, 4]])
    x = embedding(tokens, 5)
    words, places = embedding.table.weight[tokens] * math.sqrt(6), sinusoids(3, 6, start=5)[None]
    expected = words + places if combine == "add" else torch.cat([words, places], dim=2)
    torch.testing.assert_close(x, expected)
    assert x.shape[-1] == embedding.width_out
    embedding.eval()
    for place in (5, torch.tensor([5, 8, 0])):
        torch.testing.assert_close(embedding.one(tokens[0], place), embedding(tokens.T, place).squeeze(1))
    heard: list[torch.Tensor] = []
    handle = embedding.register_forward_hook(lambda module, given, output: heard.append(output))
    embedding.one(tokens[0], 5).zero_()  # decoders write over it
    handle.remove()
    assert [bool(one.any()) for one in heard] == [True], "whoever listens hears of a step, and keeps what was heard"
    later = torch.cat([embedding(tokens[:, :1], 5), embedding(tokens[:, 1:], 6)], dim=1)
    torch.testing.assert_close(later, x)


def test_padding_has_no_vector_and_learns_none():
    embedding = Embedding(5, 3)
    embedding(torch.tensor([[0, 2]])).sum().backward()
    assert (embedding.table.weight[0] == 0).all()
    assert (embedding.table.weight.grad[0] == 0).all()
    assert (embedding.table.weight.grad[2] != 0).all()
