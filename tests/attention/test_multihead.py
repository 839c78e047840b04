"""MultiHead: parity with torch by copied weights, any score, caches, beams, and masks of every shape."""

import pytest
import torch
from attention_parts import SCORES
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from regard.attention import Alibi, MultiHead, RelativeBias, Rotary, Sinusoidal, Trace, masks

B, Q, K, D, H, M = 2, 5, 7, 12, 3, 10


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def torch_twin(ours: MultiHead, memory_width: int | None = None, bias: bool = True) -> nn.MultiheadAttention:
    """nn.MultiheadAttention with our weights."""
    twin = nn.MultiheadAttention(D, H, bias=bias, batch_first=True, kdim=memory_width, vdim=memory_width).eval()
    with torch.no_grad():
        if bias:
            for parameter in ours.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))  # biases start at zero, which would hide mistakes
            biases = [ours.project.bias] if memory_width is None else [ours.project.bias, ours.project_kv.bias]
            twin.in_proj_bias.copy_(torch.cat(biases))
            twin.out_proj.bias.copy_(ours.out.bias)
        twin.out_proj.weight.copy_(ours.out.weight)
        if memory_width is None:
            twin.in_proj_weight.copy_(ours.project.weight)
        else:
            twin.q_proj_weight.copy_(ours.project.weight)
            twin.k_proj_weight.copy_(ours.project_kv.weight[:D])
            twin.v_proj_weight.copy_(ours.project_kv.weight[D:])
    return twin


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_self_attention_equals_torch(bias, causal):
    ours = MultiHead(D, H, bias=bias).eval()
    twin = torch_twin(ours, bias=bias)
    x, real = torch.randn(B, Q, D), masks.padding(torch.tensor([5, 3]), Q)[:, 0]
    hidden = ~masks.causal(Q, Q) if causal else None  # torch's masks say what to leave out
    expected, weights = twin(x, x, x, key_padding_mask=~real, attn_mask=hidden, average_attn_weights=False)
    assert_close(ours(x, mask=real, causal=causal), expected)
    with Trace() as seen:
        assert_close(ours(x, mask=real, causal=causal), expected)
    assert_close(seen["MultiHead"], weights)


@pytest.mark.parametrize("memory_width", [None, M])
def test_cross_attention_equals_torch(memory_width):
    ours = MultiHead(D, H, memory_width=memory_width).eval()
    twin = torch_twin(ours, memory_width)
    x, memory = torch.randn(B, Q, D), torch.randn(B, K, memory_width or D)
    real = masks.padding(torch.tensor([4, 7]), K)[:, 0]
    assert_close(ours(x, memory, real), twin(x, memory, memory, key_padding_mask=~real)[0])


def test_gradients_equal_torch():
    ours = MultiHead(D, H)
    twin = torch_twin(ours)
    x = torch.randn(B, Q, D)
    ours(x).square().sum().backward()
    twin(x, x, x)[0].square().sum().backward()
    assert_close(ours.project.weight.grad, twin.in_proj_weight.grad, rtol=1e-4, atol=1e-4)
    assert_close(ours.out.weight.grad, twin.out_proj.weight.grad, rtol=1e-4, atol=1e-4)


def test_attention_of_an_encoder_layer():
    layer = nn.TransformerEncoderLayer(D, H, 17, dropout=0.0, batch_first=True).eval()
    ours = MultiHead(D, H).eval()
    with torch.no_grad():
        ours.project.weight.copy_(layer.self_attn.in_proj_weight)
        ours.project.bias.copy_(layer.self_attn.in_proj_bias)
        ours.out.weight.copy_(layer.self_attn.out_proj.weight)
        ours.out.bias.copy_(layer.self_attn.out_proj.bias)
    x, real = torch.randn(B, Q, D), masks.padding(torch.tensor([5, 3]), Q)[:, 0]
    after = layer.norm1(x + ours(x, mask=real))
    after = layer.norm2(after + layer.linear2(layer.linear1(after).relu()))
    assert_close(after[real], layer(x, src_key_padding_mask=~real)[real])


def variants() -> dict[str, MultiHead]:
    torch.manual_seed(1)
    d = D // H
    parts = {f"score {name}": MultiHead(D, H, score=build(d)) for name, build in SCORES.items()}
    parts["wide heads"] = MultiHead(D, H, head_width=5, value_width=2)
    parts["more heads than width allows"] = MultiHead(D, 5, head_width=4)
    parts["one key head"] = MultiHead(D, H, kv_heads=1)
    parts["grouped key heads"] = MultiHead(D, 6, kv_heads=3)
    parts["grouped, additive, relative"] = MultiHead(D, 6, kv_heads=2, score=SCORES["additive"](2), relative=Alibi(6))
    parts["rotary"] = MultiHead(D, H, rotary=Rotary(d))
    parts["alibi"] = MultiHead(D, H, relative=Alibi(H))
    parts["relative"] = MultiHead(D, H, relative=RelativeBias(H, buckets=4, farthest=5))
    parts["relative, past only"] = MultiHead(D, H, relative=RelativeBias(H, buckets=4, farthest=5, both_ways=False))
    return parts


VARIANTS = variants()


@pytest.mark.parametrize("name", VARIANTS)
def test_cached_equals_uncached_and_traced_equals_untraced(name):
    attention = VARIANTS[name].eval()
    x = torch.randn(B, Q, D)
    whole = attention(x, causal=True)
    with Trace() as seen:
        assert_close(attention(x, causal=True), whole)
    for chunks in ([1] * Q, [3, 1, 1], [2, 3]):
        past, steps = None, []
        with Trace() as stepwise:
            for chunk in x.split(chunks, dim=1):
                traced, _ = attention.step(chunk, past)
                steps.append(traced)
                with_no_trace, past = attention.step(chunk, past)
                assert_close(traced, with_no_trace)
        assert_close(torch.cat(steps, dim=1), whole)
        assert seen["MultiHead"].shape == (B, attention.heads, Q, Q)
        assert len(stepwise.calls("MultiHead")) == 2 * len(chunks)


@pytest.mark.parametrize("name", [n for n in VARIANTS if VARIANTS[n].rotary is None and VARIANTS[n].relative is None])
def test_beams_share_the_memory(name):
    attention = VARIANTS[name].eval()
    memory, real = torch.randn(B, K, D), masks.padding(torch.tensor([4, 7]), K)[:, 0]
    beams = torch.randn(B * 3, 1, D)
    expected = attention(beams, memory.repeat_interleave(3, 0), real.repeat_interleave(3, 0))
    shared = attention.project_memory(memory)
    assert_close(attention(beams, shared, real), expected)
    with Trace() as seen:
        assert_close(attention(beams, shared, real), expected)
    assert seen["MultiHead"].shape == (B * 3, attention.heads, 1, K)
    assert (seen["MultiHead"][:3, ..., 4:] == 0).all()
    assert (seen["MultiHead"][3:, ..., 4:] > 0).all()


def test_rows_of_a_cache_can_be_selected():
    attention = MultiHead(D, H).eval()
    x = torch.randn(3, Q, D)
    _, past = attention.step(x[:, :-1], None)
    rows = torch.tensor([2, 0, 0])
    step, _ = attention.step(x[rows, -1:], past.select(rows))
    assert_close(step, attention(x, causal=True)[rows, -1:])


@settings(deadline=None, max_examples=20)
@given(st.sampled_from(sorted(VARIANTS)), st.integers(0, 50))
def test_padding_changes_nothing(name, seed):
    torch.manual_seed(seed)
    attention = VARIANTS[name].eval()
    x = torch.randn(B, Q, D)
    longer = torch.cat([x, torch.randn(B, 2, D)], dim=1)
    real = masks.padding(torch.tensor([Q, Q]), Q + 2)[:, 0]
    assert_close(attention(longer, mask=real)[:, :Q], attention(x), rtol=1e-4, atol=1e-5)
    assert_close(attention(longer, causal=True)[:, :Q], attention(x, causal=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [n for n in VARIANTS if VARIANTS[n].rotary is None and VARIANTS[n].relative is None])
def test_without_positions_order_means_nothing_and_with_them_it_does(name):
    attention = VARIANTS[name].eval()
    x, order = torch.randn(B, Q, D), torch.tensor([3, 0, 4, 1, 2])
    assert_close(attention(x[:, order]), attention(x)[:, order], rtol=1e-4, atol=1e-5)
    place = Sinusoidal(D)
    assert not torch.allclose(attention(place(x[:, order])), attention(place(x))[:, order], atol=1e-3)


@pytest.mark.parametrize("name", ["rotary", "alibi", "relative", "relative, past only"])
def test_positions_inside_the_score_break_the_symmetry_too(name):
    attention = VARIANTS[name].eval()
    if isinstance(attention.relative, RelativeBias):
        nn.init.normal_(attention.relative.bias)
    x, order = torch.randn(B, Q, D), torch.tensor([3, 0, 4, 1, 2])
    assert not torch.allclose(attention(x[:, order]), attention(x)[:, order], atol=1e-3)


@pytest.mark.parametrize("kv_heads", [1, 3, 6])
def test_masks_of_every_shape(kv_heads):
    attention = MultiHead(D, 6, kv_heads=kv_heads).eval()
    x, memory, keys = torch.randn(B, Q, D), torch.randn(B, K, D), torch.rand(B, K) > 0.3
    full = keys[:, None, None].expand(B, 6, Q, K)
    expected = attention(x, memory, keys)
    for same in (keys[:, None], keys[:, None].expand(B, Q, K), keys[:, None, None], full):
        assert_close(attention(x, memory, same), expected)
    by_head = full & (torch.rand(B, 6, Q, K) > 0.3)
    with Trace() as seen:
        traced = attention(x, memory, by_head)
    assert_close(attention(x, memory, by_head), traced)
    assert (seen["MultiHead"][~by_head] == 0).all()


def test_grouped_heads_equal_heads_with_repeated_keys():
    grouped, repeated = MultiHead(D, 6, kv_heads=2).eval(), MultiHead(D, 6).eval()
    weight = grouped.project.weight.data
    query, key, value = weight.split([D, 4, 4])
    each = [part.view(2, 2, D).repeat_interleave(3, dim=0).reshape(D, D) for part in (key, value)]
    repeated.project.weight.data = torch.cat([query, *each])
    repeated.out.load_state_dict(grouped.out.state_dict())
    x = torch.randn(B, Q, D)
    assert_close(grouped(x, causal=True), repeated(x, causal=True))


def test_dropout_only_in_training():
    attention = MultiHead(D, H, dropout=0.5)
    x = torch.randn(B, Q, D)
    assert not torch.allclose(attention(x), attention(x))
    attention.eval()
    assert_close(attention(x), attention(x))


@pytest.mark.parametrize(("n", "q", "k"), [(0, 5, 7), (2, 0, 7), (2, 5, 0), (1, 1, 1)])
def test_nothing_to_ask_or_to_answer(n, q, k):
    attention = MultiHead(D, H).eval()
    x, memory = torch.randn(n, q, D), torch.randn(n, k, D)
    for run in (lambda: attention(x, memory), lambda: attention(x), lambda: attention.step(x, None)[0]):
        assert run().shape == (n, q, D)
        with Trace():
            assert run().isfinite().all()


def test_it_compiles_for_a_count_without_numbers():
    with torch.device("meta"):
        attention = MultiHead(D, H)
        assert attention(torch.randn(B, Q, D), causal=True).shape == (B, Q, D)
