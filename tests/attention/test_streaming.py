"""The streaming kernel: exact, whatever the tiles, and small."""

import pytest
import torch
from attention_parts import PeakMemory, random_parts
from torch.testing import assert_close

from regard import catalog
from regard.attention import Additive, Attention, TanhForm, Trace, masks, score, streaming_attention, tanh_table


def direct(form, value, mask=None, bias=None):
    """The equation as every textbook writes it, through a tensor of Q×K×D."""
    scores = torch.tanh(form.query.unsqueeze(-2) + form.key.unsqueeze(-3)) @ form.weight
    scores = scores if bias is None else scores + bias
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ value


def random_form(lead, Q, K, D, Dv, dtype=torch.float32):
    query, key, value = random_parts(0, lead, Q, K, D, Dv, dtype)
    weight = torch.randn(D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return TanhForm(query, key, weight.to(dtype).requires_grad_()), value


# Tiles of one pair, of a few, of several batch rows, and of everything at once
@pytest.fixture(params=[1, 60, 300, 10**6])
def tile(request, monkeypatch):
    monkeypatch.setattr(tanh_table, "TILE_ON_CPU", request.param)


@pytest.mark.usefixtures("tile")
@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
@pytest.mark.parametrize("kind", ["plain", "padding", "table", "causal", "bias"])
def test_equal_to_the_direct_form(lead, kind):
    form, value = random_form(lead, 7, 11, 5, 3)
    mask = {"padding": torch.rand(*lead, 1, 11) > 0.3, "table": torch.rand(7, 11) > 0.3}.get(kind)
    if mask is not None:
        mask[..., 0] = True
    bias = torch.randn(*lead, 7, 11, requires_grad=True) if kind == "bias" else None
    context = streaming_attention(form, value, mask, bias=bias, causal=kind == "causal")
    expected = direct(form, value, masks.causal(7, 11) if kind == "causal" else mask, bias)
    assert_close(context, expected)
    inputs = [*form, value] if bias is None else [*form, value, bias]
    direction = torch.randn_like(context)
    gradients = torch.autograd.grad(context, inputs, direction)
    for got, wanted in zip(gradients, torch.autograd.grad(expected, inputs, direction), strict=True):
        assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("tile")
@pytest.mark.parametrize("lead", [(), (2, 3)])
def test_the_table_of_scores_is_that_of_the_direct_form(lead, monkeypatch):
    monkeypatch.setattr(score, "SMALL", 0)
    form, _ = random_form(lead, 7, 11, 5, 3)
    expected = torch.tanh(form.query.unsqueeze(-2) + form.key.unsqueeze(-3)) @ form.weight
    table = form.table()
    assert_close(table, expected)
    direction = torch.randn_like(table)
    gradients = torch.autograd.grad(table, form, direction)
    for got, wanted in zip(gradients, torch.autograd.grad(expected, form, direction), strict=True):
        assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("tile")
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_gradients_in_double(dropout):
    form, value = random_form((2,), 3, 4, 2, 1, torch.float64)
    mask = torch.tensor([[True, True, False, True], [False] * 4, [True, False, True, True]])
    bias = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)

    def run(query, key, weight, value, bias):
        torch.manual_seed(7)  # the same weights are dropped each time
        return streaming_attention(TanhForm(query, key, weight), value, mask, bias=bias, dropout=dropout)

    assert torch.autograd.gradcheck(run, [*form, value, bias])


@pytest.mark.usefixtures("tile")
def test_rows_without_keys_are_zero_in_value_and_gradient():
    form, value = random_form((2,), 3, 5, 2, 4)
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[0, 1] = mask[1] = False
    context = streaming_attention(form, value, mask)
    gradients = torch.autograd.grad(context.square().sum(), [form.query, form.key, value])
    assert (context[0, 1] == 0).all()
    assert (context[1] == 0).all()
    assert (gradients[0][0, 1] == 0).all()
    assert all((gradient[1] == 0).all() and gradient.isfinite().all() for gradient in gradients)


def test_leading_dimensions_broadcast():
    query, key, value = torch.randn(2, 1, 7, 5), torch.randn(3, 11, 5), torch.randn(1, 11, 4)
    form = TanhForm(query, key, torch.randn(5))
    assert_close(streaming_attention(form, value), direct(form, value))


def test_dropout_is_reproducible_and_drops_the_right_share():
    form, _ = random_form((2,), 50, 60, 3, 1)
    ones = torch.eye(60).expand(2, 60, 60)  # so that the context is the weights themselves
    torch.manual_seed(0)
    first = streaming_attention(form, ones, dropout=0.3)
    second = streaming_attention(form, ones, dropout=0.3)
    torch.manual_seed(0)
    assert_close(streaming_attention(form, ones, dropout=0.3), first)
    assert not torch.equal(first, second)
    kept = first != 0
    assert 0.67 < kept.float().mean() < 0.73
    assert_close(first[kept], (streaming_attention(form, ones) / 0.7)[kept])


def test_memory_is_a_small_part_of_the_direct_forms():
    n, width = 512, 64
    score = Additive(width, width, width)
    query, key, value = random_parts(0, (), n, n, width, width)
    peaks = []
    for run in (lambda form: streaming_attention(form, value), lambda form: direct(form, value)):
        form = score.normal_form(query, key)
        assert isinstance(form, TanhForm)
        with PeakMemory() as meter:
            run(form).sum().backward()
        peaks.append(meter.peak)
    streamed, plain = peaks
    assert plain >= n * n * width * 4  # the meter does see the tensor of Q×K×D
    assert streamed < plain / 20


def test_memory_grows_linearly():
    peaks = []
    for n in (256, 512, 1024):
        form, value = random_form((), n, n, 32, 32)
        with PeakMemory() as meter:
            streaming_attention(form, value, causal=True).sum().backward()
        peaks.append(meter.peak)
    assert peaks[2] - peaks[1] < 3 * (peaks[1] - peaks[0])


@pytest.mark.parametrize("name", ["additive", "concat"])
@pytest.mark.parametrize("gradients", [False, True])
def test_looking_costs_what_the_weights_cost(name, gradients):
    """Not Q×K×D, which is 64 times as much here; and what is seen is no other than what is computed unseen."""
    n, width = 512, 64
    layer = Attention(catalog.find(catalog.SCORES, name).for_widths(width, width, width), width, width).eval()
    x, memory, _ = random_parts(0, (), n, n, width, width)
    with PeakMemory() as meter, Trace(layer, gradients=gradients) as seen:
        context = layer(x, memory)
        seen.gradients(context.square().sum()) if gradients else context.sum().backward()
    assert meter.peak < 12 * n * n * 4 + 4 * tanh_table.TILE_ON_CPU
    assert_close(context, layer(x, memory))
    assert_close(seen[seen.names[0]], layer.score(x, memory).softmax(-1))
