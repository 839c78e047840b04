"""Products with a matrix: the same numbers whichever way is chosen, and the choice is made once for a shape."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.layers import fbgemm, packed, quantized
from regard.layers import one_row as one_row_
from regard.layers.fastest import fastest
from regard.layers.one_row import fastest_way, in_blocks, one_row, turned
from regard.native import kernels

fbgemm_here = fbgemm.available()


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("way", [F.linear, in_blocks, turned])
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_same_numbers(way: Any, threads: int, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(threads)
    layer, x, chosen = nn.Linear(7, 12, bias=bias), torch.randn(1, 7), []
    monkeypatch.setattr(one_row_, "fastest_way", lambda *shape: chosen.append(way) or way)
    with torch.inference_mode():
        for _ in range(packed.USES + 2):
            torch.testing.assert_close(one_row(layer, x), layer(x))
        assert len(chosen) == 2, "nothing is timed before the weight was used often"
        layer.weight.mul_(2.0)
        for _ in range(packed.USES + 1):
            torch.testing.assert_close(one_row(layer, x), layer(x))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("rows", "width"), [(16, 8), (7, 16)])
def test_the_choice_is_made_once_for_a_shape(threads: int, rows: int, width: int) -> None:
    torch.set_num_threads(threads)
    fastest_way.cache_clear()
    layer, x = nn.Linear(width, rows), torch.randn(1, width)
    with torch.inference_mode():
        for _ in range(packed.USES + 3):
            torch.testing.assert_close(one_row(layer, x), layer(x))
    assert (fastest_way.cache_info().misses, fastest_way.cache_info().hits) == (1, 2)


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
    if compiled != kernels.available():
        monkeypatch.setattr(kernels, "available", lambda *tensors: False)
    packer = packed._packer.__wrapped__()
    if packer is None or (packer is kernels.pack) != compiled:
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
    assert packed.used(layer).blocks is not None


@pytest.mark.skipif(not fbgemm.available(), reason="this build of torch or this processor has no fbgemm")
@pytest.mark.parametrize(("precision", "near"), [("fp16", 1e-5), ("int8", 0.02)])
@pytest.mark.parametrize("rows", [1, 5, 20])
def test_small_weights_give_the_same_with_and_without_fbgemm(
    rows: int, precision: Any, near: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, x = nn.Linear(24, 37), torch.randn(rows, 24) * torch.logspace(-3, 3, rows).unsqueeze(1)  # one is the largest
    packed = quantized.QuantizedLinear(layer, precision)
    monkeypatch.setattr(fbgemm, "available", lambda: False)
    plain = quantized.QuantizedLinear(layer, precision)
    assert (packed.kept, plain.packed) == (None, None)
    torch.testing.assert_close(packed.weight, plain.weight)
    for given in (x, x.view(rows, 1, 24)):
        made, wanted = packed(given), plain(given)
        assert made.shape == wanted.shape == (*given.shape[:-1], 37)
        assert ((made - wanted).norm(dim=-1) <= near * wanted.norm(dim=-1)).all()
    x.requires_grad_()
    packed(x).sum().backward()
    torch.testing.assert_close(x.grad, plain.weight.sum(0).expand_as(x))


@pytest.mark.parametrize("kernels", [True, False])
def test_weights_that_16_bits_cannot_hold_are_the_largest_that_they_can(
    kernels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fbgemm, "available", lambda: kernels and fbgemm_here)
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.data = torch.tensor([[1e6, -1e6]])
    assert quantized.QuantizedLinear(layer, "fp16").weight.tolist() == [[65504.0, -65504.0]]


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
