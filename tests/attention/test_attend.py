"""attend: parity with torch, hand-worked numbers, and what must hold for every score, shape, type and mask."""

import math
import sys

import pytest
import torch
from attention_parts import SCORES, random_parts
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from regard.attention import Dot, ScaledDot, attend, masks, streaming

attend_module = sys.modules["regard.attention.attend"]  # whose name in the package is that of the function

TOLERANCE = {
    torch.float64: {"rtol": 1e-9, "atol": 1e-9},
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
    torch.float16: {"rtol": 5e-3, "atol": 5e-3},
}


@pytest.fixture(autouse=True)
def always_stream(monkeypatch):
    """Small tanh forms would otherwise be computed in the open, and the fused way go untested."""
    monkeypatch.setattr(attend_module, "SMALL", 0)


@st.composite
def cases(draw):
    """A score and its arguments, in coprime sizes so that a swapped axis shows."""
    name = draw(st.sampled_from(sorted(SCORES)))
    lead = draw(st.sampled_from([(), (2,), (2, 3), (3, 1, 2)]))
    Q, K, D, Dv = draw(st.permutations([3, 5, 7, 11]))
    dtype = draw(st.sampled_from(sorted(TOLERANCE, key=str)))
    seed = draw(st.integers(0, 99))
    torch.manual_seed(seed)
    score = SCORES[name](D).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    mask = {
        "none": lambda: None,
        "padding": lambda: torch.rand(*lead, 1, K, generator=generator) > 0.3,
        "table": lambda: torch.rand(Q, K, generator=generator) > 0.5,
        "full": lambda: torch.rand(*lead, Q, K, generator=generator) > 0.7,
    }[draw(st.sampled_from(["none", "padding", "table", "full"]))]()
    bias = torch.randn(Q, K, generator=generator).to(dtype) if draw(st.booleans()) else None
    options = {"mask": mask, "bias": bias, "causal": draw(st.booleans())}
    return score, random_parts(seed, lead, Q, K, D, Dv, dtype), options, dtype


@settings(deadline=None, max_examples=60)
@given(cases())
def test_what_holds_always(case):
    score, (query, key, value), options, dtype = case
    close = TOLERANCE[dtype]
    context, none = attend(score, query, key, value, **options)
    traced, weights = attend(score, query, key, value, **options, need_weights=True)
    assert none is None
    assert weights is not None

    # Both ways agree, in value and in every gradient.
    assert context.dtype == traced.dtype == dtype
    assert_close(context, traced, **close)
    everything = [query, key, value, *score.parameters()]
    direction = torch.randn_like(context)
    fused = torch.autograd.grad(context, everything, direction)
    plain = torch.autograd.grad(traced, everything, direction)
    # Large terms cancel in a gradient (a cosine's leaves out the vector's own direction, its temperature's sums up the
    # table), and what they lost by rounding stays: a share of the largest, also where little is left.
    largest = max(1.0, *(float(b.abs().max()) for b in plain))
    for a, b in zip(fused, plain, strict=True):
        assert a.isfinite().all()
        assert_close(a, b, rtol=close["rtol"] * 10, atol=close["atol"] * 10 * largest)

    # Rows sum to one, or, if they may attend to nothing, to zero; and never attend where they may not.
    allowed = torch.ones_like(weights, dtype=torch.bool)
    if options["mask"] is not None:
        allowed &= options["mask"]
    if options["causal"]:
        allowed &= masks.causal(*weights.shape[-2:])
    assert_close(weights.sum(-1), allowed.any(-1).to(weights.dtype), **close)
    assert (weights[~allowed] == 0).all()
    empty = ~allowed.any(-1)
    assert (context[empty] == 0).all()
    assert (fused[0][empty] == 0).all()

    # Permuting keys permutes weights and changes nothing else.
    if not options["causal"]:
        order = torch.randperm(key.shape[-2])
        moved = {n: None if options[n] is None else options[n][..., order] for n in ("mask", "bias")}
        again, permuted = attend(score, query, key[..., order, :], value[..., order, :], **moved, need_weights=True)
        assert_close(permuted, weights[..., order], **close)
        assert_close(again, traced, **close)


@settings(deadline=None, max_examples=25)
@given(cases(), st.sampled_from([math.nan, math.inf, -math.inf, 1e4]), st.booleans())
def test_what_is_hidden_changes_nothing(case, rubbish, need_weights):
    score, (query, key, value), _, dtype = case
    mask = torch.arange(key.shape[-2]) < key.shape[-2] - 2
    expected, _ = attend(score, query, key[..., :-2, :], value[..., :-2, :], need_weights=need_weights)
    key, value = key.clone(), value.clone()
    key[..., -2:, :] = value[..., -2:, :] = rubbish
    with torch.no_grad():
        quick, _ = attend(score, query, key, value, mask, need_weights=need_weights)
    assert_close(quick, expected, **TOLERANCE[dtype])
    context, _ = attend(score, query, key, value, mask, need_weights=need_weights)
    assert_close(context, expected, **TOLERANCE[dtype])
    for gradient in torch.autograd.grad(context.sum(), [query, *score.parameters()]):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("name", SCORES)
def test_the_future_changes_nothing(name):
    score = SCORES[name](5)
    query, key, value = random_parts(0, (2,), 7, 7, 5, 3)
    before, _ = attend(score, query, key, value, causal=True)
    key2, value2 = key.detach().clone(), value.detach().clone()
    key2[:, 4:], value2[:, 4:] = 9.0, -9.0
    after, _ = attend(score, query, key2, value2, causal=True)
    assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


@pytest.mark.parametrize("name", SCORES)
def test_causal_with_fewer_queries_ends_where_the_keys_end(name):
    score = SCORES[name](5)
    query, key, value = random_parts(0, (2,), 7, 7, 5, 3)
    all_steps, _ = attend(score, query, key, value, causal=True)
    for last in (1, 2, 3):
        some, _ = attend(score, query[:, -last:], key, value, causal=True)
        assert_close(some, all_steps[:, -last:])


def test_one_query_by_hand():
    query = torch.tensor([[1.0, 0.0]])
    key = torch.tensor([[math.log(2), 5.0], [0.0, 7.0], [99.0, 0.0]])
    value = torch.tensor([[3.0], [9.0], [-1.0]])
    context, weights = attend(Dot(), query, key, value, torch.tensor([True, True, False]), need_weights=True)
    assert_close(weights, torch.tensor([[2 / 3, 1 / 3, 0.0]]))
    assert_close(context, torch.tensor([[5.0]]))


@pytest.mark.parametrize("causal", [False, True])
def test_parity_with_torch(causal):
    query, key, value = random_parts(0, (2, 3), 7, 7, 5, 5)
    expected = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
    assert_close(attend(ScaledDot(), query, key, value, causal=causal)[0], expected)
    assert_close(attend(ScaledDot(), query, key, value, causal=causal, need_weights=True)[0], expected)


def test_every_shape_reaches_the_kernel_without_a_table():
    """Values of another width, leading dimensions of any number, and keys that heads share."""
    for lead, shared in [((), ()), ((2,), (2,)), ((2, 3), (2, 3)), ((2, 3, 2), (2, 3, 2)), ((2, 3, 4), (2, 3, 1))]:
        query, key, value = torch.randn(*lead, 5, 7), torch.randn(*shared, 11, 7), torch.randn(*shared, 11, 3)
        with torch.profiler.profile() as profile:
            attend(ScaledDot(), query, key, value, torch.rand(5, 11) > 0.2)
        called = {event.key for event in profile.key_averages()}
        assert "aten::_scaled_dot_product_flash_attention_for_cpu" in called, lead


def test_heads_that_share_keys():
    query, key, value = torch.randn(2, 3, 4, 5, 7), torch.randn(2, 3, 1, 11, 7), torch.randn(2, 3, 1, 11, 3)
    mask = torch.rand(2, 3, 4, 5, 11) > 0.4
    context, _ = attend(ScaledDot(), query, key, value, mask)
    repeated = (x.expand(2, 3, 4, *x.shape[-2:]).contiguous() for x in (key, value))
    assert_close(context, attend(ScaledDot(), query, *repeated, mask, need_weights=True)[0])


def test_empty_rows_where_the_kernel_does_not_see_to_them(monkeypatch):
    """The way taken on devices whose kernels give NaN for rows that are masked altogether."""
    query, key, value = random_parts(0, (2, 3), 5, 7, 4, 4)
    mask = torch.rand(2, 1, 5, 7) > 0.3
    mask[0, 0, 2] = mask[1, 0, 4] = False
    bias = torch.randn(5, 7)
    for extra in (None, bias):
        results = []
        for safe in ({"cpu"}, set()):
            monkeypatch.setattr(streaming, "EMPTY_ROWS_ARE_SAFE_ON", safe)
            context, _ = attend(Dot(), query, key, value, mask, bias=extra)
            results.append([context, *torch.autograd.grad(context.square().sum(), [query, key, value])])
        for one, other in zip(*results, strict=True):
            assert_close(one, other)
        assert (results[1][0][0, :, 2] == 0).all()
        assert (results[1][1][1, :, 4] == 0).all()


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("need_weights", [False, True])
def test_gradient_of_the_bias(name, need_weights):
    torch.manual_seed(0)
    score = SCORES[name](3).double()
    query, key, value = random_parts(0, (2,), 2, 5, 3, 4, torch.float64)
    bias = torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda b: attend(score, query, key, value, bias=b, need_weights=need_weights)[0], [bias]
    )


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("need_weights", [False, True])
def test_dropout_keeps_the_mean(name, need_weights):
    torch.manual_seed(0)
    score = SCORES[name](3)
    query, key, value = torch.randn(1, 3), torch.randn(5, 3), torch.ones(5, 1)
    many = attend(score, query.expand(4000, 1, 3), key, value, dropout=0.4, need_weights=need_weights)
    assert many[0].std() > 0.1
    assert_close(many[0].mean(), torch.tensor(1.0), atol=0.05, rtol=0)
    assert (many[1] is not None) == need_weights
    if many[1] is not None:
        assert_close(many[1].sum(-1), torch.ones(4000, 1))  # the weights are those before dropout


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize(("Q", "K"), [(0, 5), (5, 0), (1, 1), (0, 0)])
def test_lengths_zero_and_one(name, need_weights, Q, K):
    query, key, value = random_parts(0, (2,), Q, K, 3, 4)
    mask = torch.ones(2, 1, K, dtype=torch.bool)
    for options in ({}, {"mask": mask}, {"causal": True}):
        context, weights = attend(SCORES[name](3), query, key, value, **options, need_weights=need_weights)
        assert context.shape == (2, Q, 4)
        assert (None if weights is None else weights.shape) == ((2, Q, K) if need_weights else None)
        assert_close(context, value.expand(2, Q, 4) if K == 1 else torch.zeros(2, Q, 4))


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("need_weights", [False, True])
def test_float16_does_not_overflow(name, need_weights):
    """The products of these vectors are a hundred times what float16 can hold."""
    torch.manual_seed(0)
    score = SCORES[name](64)
    query, key, value = 300 * torch.randn(5, 64), 300 * torch.randn(7, 64), torch.randn(7, 3)
    if name == "bilinear":
        torch.nn.init.eye_(score.weight)  # so that the keys themselves stay within float16
    exact, _ = attend(score, query.half().float(), key.half().float(), value)
    context, _ = attend(score.half(), query.half(), key.half(), value.half(), need_weights=need_weights)
    assert_close(context.float(), exact, rtol=0.02, atol=0.1)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("need_weights", [False, True])
def test_autocast_does_not_reach_the_softmax(name, need_weights):
    score = SCORES[name](5)
    query, key, value = random_parts(0, (2,), 7, 11, 5, 3)
    expected, _ = attend(score, query, key, value)
    with torch.autocast("cpu", torch.bfloat16):
        context, weights = attend(score, query, key, value, need_weights=need_weights)
    assert_close(context.float(), expected, rtol=0.05, atol=0.05)
    assert (None if weights is None else weights.dtype) == (torch.float32 if need_weights else None)


@pytest.mark.parametrize("name", SCORES)
def test_small_or_not_is_the_same(name, monkeypatch):
    score = SCORES[name](5)
    query, key, value = random_parts(0, (2,), 7, 11, 5, 3)
    streaming, _ = attend(score, query, key, value)
    monkeypatch.setattr(attend_module, "SMALL", 10**9)
    assert_close(attend(score, query, key, value)[0], streaming)


@pytest.mark.parametrize("name", SCORES)
def test_on_the_meta_device_nothing_is_computed(name):
    """What a model costs is counted without numbers."""
    with torch.device("meta"):
        score = SCORES[name](5)
        query, key, value = torch.randn(2, 7, 5), torch.randn(2, 11, 5), torch.randn(2, 11, 3)
        context, _ = attend(score, query, key, value, torch.ones(2, 1, 11, dtype=torch.bool))
    assert context.shape == (2, 7, 3)
    assert context.is_meta
