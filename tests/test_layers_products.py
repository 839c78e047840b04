"""Products with a matrix: the same numbers whichever way is chosen, and the choice is made once for a shape."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.kernels import inference
from regard.layers import packed
from regard.layers.packed import fastest


def test_the_quickest_call_decides_since_others_only_make_calls_slower() -> None:
    now = 0.0

    def takes(seconds: float) -> None:
        nonlocal now
        now += seconds

    def way(*seconds: float) -> list[Callable[[], None]]:
        return [partial(takes, each) for each in seconds]

    assert fastest([way(3, 3, 3), way(9, 2, 9)], lambda: now) == 1
    assert fastest([way(9, 9, 3), way(4, 4, 4)], lambda: now) == 0


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 64, 321])
@pytest.mark.parametrize("bias", [True, False])
def test_packed_weights_give_the_numbers_of_the_plain_ones(
    rows: int, bias: bool, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled != inference.available():
        monkeypatch.setattr(inference, "available", lambda *tensors: False)
    packer = packed._packer.__wrapped__()
    if packer is None or (packer is inference.pack) != compiled:
        pytest.skip("a build of torch without oneDNN, or no C compiler")
    monkeypatch.setattr(packed, "packed_is_faster", lambda *shape: True)
    monkeypatch.setattr(packed, "_packer", lambda: packer)
    layer, x = nn.Linear(24, 37, bias=bias), torch.randn(rows, 24)
    with torch.inference_mode():
        for _ in range(packed.USES + 1):
            torch.testing.assert_close(packed.linear(layer, x), layer(x))
            torch.testing.assert_close(packed.linear(layer, x, relu=True), layer(x).relu())
            out = torch.ones(rows, 37)
            assert packed.linear(layer, x, out=out, add=True) is out
            torch.testing.assert_close(out, 1.0 + layer(x))
            torch.testing.assert_close(packed.linear(layer, x, out=out), layer(x))
    assert packed.count_use(layer).blocks is not None


def test_a_weight_is_packed_when_it_is_used_often_and_anew_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x, packs = nn.Linear(24, 37), torch.randn(5, 24), []
    monkeypatch.setattr(packed, "packed_is_faster", lambda *shape: True)
    monkeypatch.setattr(packed, "_packer", lambda: lambda weight: packs.append(1) or weight.clone())
    monkeypatch.setattr(packed, "_by_onednn", F.linear)

    def use(times: int) -> None:
        for _ in range(times):
            torch.testing.assert_close(packed.linear(layer, x), layer(x))

    with torch.no_grad():
        use(packed.USES)
        assert not packs
        use(3)
        assert len(packs) == 1
        layer.weight.mul_(2.0)
        use(packed.USES + 2)
        assert len(packs) == 2
        with torch.enable_grad():
            assert packed.linear(layer, x).requires_grad
        layer.register_forward_hook(lambda module, given, result: -result)
        use(1)
