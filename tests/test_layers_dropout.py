"""Our dropout by its definition: how much stays, what it is multiplied by, and that training alone has it."""

import pytest
import torch

from regard.errors import CallError
from regard.kernels import gradients
from regard.layers.feed_forward import Dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.75])
def test_keeps_the_right_share_and_the_mean(p):
    torch.manual_seed(0)
    x = torch.ones(601, 503, requires_grad=True)
    y = Dropout(p)(x)
    share = float((y != 0).float().mean())
    assert share == pytest.approx(1 - p, abs=0.004)  # four standard deviations at most
    assert torch.unique(y.detach()).tolist() == pytest.approx([0.0, 1 / (1 - p)], rel=1e-4)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())


def test_places_are_independent():
    """Four places share one random integer: neighbors must not be dropped together."""
    torch.manual_seed(1)
    dropped = (Dropout(0.5)(torch.ones(40_000, 4)) == 0).double()
    correlation = torch.corrcoef(dropped.T) - torch.eye(4)
    assert correlation.abs().max() < 0.02


def test_same_seed_same_places_and_any_shape_or_type():
    for shape in ((), (1,), (3, 0), (5, 7, 3)):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            outputs = []
            for _ in range(2):
                torch.manual_seed(3)
                outputs.append(Dropout(0.3)(torch.ones(shape, dtype=dtype)))
            assert outputs[0].dtype == dtype
            assert torch.equal(*outputs)


@pytest.mark.parametrize("native", [True, False])
def test_a_dropout_just_below_one_keeps_a_few(native, monkeypatch):
    monkeypatch.setattr(gradients.training, "WORTH", 0 if native else 2**60)
    x = torch.ones(2**20, requires_grad=True)
    y = Dropout(0.9999999)(x)
    assert torch.isfinite(y).all()
    assert 0 < (y != 0).sum() < 100


def test_evaluation_changes_nothing():
    x = torch.randn(5, 3)
    assert Dropout(0.9).eval()(x) is x
    assert Dropout(0.0)(x) is x
    with pytest.raises(CallError, match=r"dropout=1\.0"):
        Dropout(1.0)
