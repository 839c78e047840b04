"""The fused cross-entropy against PyTorch's own, values and gradients."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.layers.loss import fused_cross_entropy


def problem(rows=23, width=7, words=11, dtype=torch.float64):
    torch.manual_seed(1)
    features = torch.randn(rows, width, dtype=dtype, requires_grad=True)
    weight = torch.randn(words, width, dtype=dtype, requires_grad=True)
    bias = torch.randn(words, dtype=dtype, requires_grad=True)
    targets = torch.randint(0, words, (rows,))
    targets[::5] = 0
    return features, weight, bias, targets


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("block_rows", [1, 5, 100])
def test_loss_and_gradients_are_those_of_torch(smoothing, with_bias, block_rows):
    features, weight, bias, targets = problem()
    inputs = [features, weight, bias] if with_bias else [features, weight]
    expected = F.cross_entropy(
        F.linear(features, weight, bias if with_bias else None),
        targets,
        ignore_index=0,
        reduction="sum",
        label_smoothing=smoothing,
    )
    wanted = torch.autograd.grad(3.0 * expected, inputs)
    loss = fused_cross_entropy(
        features, weight, bias if with_bias else None, targets, smoothing=smoothing, block_rows=block_rows
    )
    got = torch.autograd.grad(3.0 * loss.total, inputs)
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == int((targets != 0).sum())
    for ours, theirs in zip(got, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_gradcheck():
    features, weight, bias, targets = problem(rows=7, width=3, words=5)
    assert torch.autograd.gradcheck(
        lambda *inputs: fused_cross_entropy(*inputs, targets, smoothing=0.2, block_rows=3).total,
        (features, weight, bias),
    )


def test_correct_predictions_are_counted():
    weight = torch.eye(4)
    features = torch.eye(4)[[1, 2, 3, 3, 1]]
    loss = fused_cross_entropy(features, weight, None, torch.tensor([1, 2, 2, 0, 1]))
    assert loss.count == 4
    assert int(loss.correct) == 3


def test_weight_tied_with_the_embedding_gets_both_gradients():
    torch.manual_seed(2)
    embedding = nn.Embedding(11, 5, dtype=torch.float64)
    tokens, targets = torch.tensor([3, 1, 4, 2, 9]), torch.tensor([5, 9, 2, 6, 5])
    fused = fused_cross_entropy(embedding(tokens).tanh(), embedding.weight, None, targets).total
    plain = F.cross_entropy(F.linear(embedding(tokens).tanh(), embedding.weight), targets, reduction="sum")
    ours, theirs = (torch.autograd.grad(total, [embedding.weight])[0] for total in (fused, plain))
    torch.testing.assert_close(ours, theirs)


def test_autocast_keeps_softmax_and_sums_in_float32():
    features, weight, bias, targets = problem(rows=301, width=16, words=37, dtype=torch.float32)
    exact = fused_cross_entropy(features, weight, bias, targets, smoothing=0.1)
    wanted = torch.autograd.grad(exact.total, [features, weight, bias])
    # oneDNN picks AMX kernels that virtual machines may advertise but not run: the plain kernels work everywhere
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", dtype=torch.bfloat16):
        loss = fused_cross_entropy(features, weight, bias, targets, smoothing=0.1)
    got = torch.autograd.grad(loss.total, [features, weight, bias])
    assert loss.total.dtype == torch.float32
    torch.testing.assert_close(loss.total, exact.total, rtol=5e-3, atol=0)
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 0.02 * theirs.norm()


def test_nothing_real_is_a_loss_of_zero():
    features, weight, bias, _ = problem()
    loss = fused_cross_entropy(features, weight, bias, torch.zeros(23, dtype=torch.long))
    assert loss.count == 0
    assert float(loss.total.detach()) == 0.0
    assert all((g == 0).all() for g in torch.autograd.grad(loss.total, [features, weight, bias]))


def test_no_gradient_is_formed_when_none_is_wanted():
    features, weight, bias, targets = problem()
    with torch.no_grad():
        loss = fused_cross_entropy(features, weight, bias, targets)
    assert not loss.total.requires_grad
