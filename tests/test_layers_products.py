"""Products with a matrix: the same numbers whichever way is chosen, and the choice is made once for a shape."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.layers import packed
from regard.layers.fastest import fastest
from regard.layers.one_row import blocks_are_faster, in_blocks, one_row


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("rows", "width"), [(12, 5), (24, 64), (7, 16), (1, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_same_numbers(threads: int, rows: int, width: int, bias: bool) -> None:
    torch.set_num_threads(threads)
    x, weight, added = torch.randn(1, width), torch.randn(rows, width), torch.randn(rows) if bias else None
    torch.testing.assert_close(one_row(x, weight, added), F.linear(x, weight, added))
    torch.testing.assert_close(one_row(x, weight.T.contiguous().T, added), F.linear(x, weight, added))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_blocks_give_the_numbers_of_the_whole(threads: int) -> None:
    torch.set_num_threads(threads)
    x, weight = torch.randn(1, 7), torch.randn(12, 7)
    torch.testing.assert_close(in_blocks(x, weight), F.linear(x, weight))


def test_the_choice_is_made_once_for_a_shape() -> None:
    torch.set_num_threads(2)
    blocks_are_faster.cache_clear()
    weight = torch.randn(16, 8)
    for _ in range(3):
        one_row(torch.randn(1, 8), weight)
    one_row(torch.randn(1, 8), torch.randn(16, 8), torch.randn(16))
    assert (blocks_are_faster.cache_info().misses, blocks_are_faster.cache_info().hits) == (1, 3)
    one_row(torch.randn(1, 8), torch.randn(24, 8))
    assert blocks_are_faster.cache_info().misses == 2
    torch.set_num_threads(1)
    one_row(torch.randn(1, 8), weight)  # with one core there is nothing to choose
    assert blocks_are_faster.cache_info().misses == 2


def test_the_median_decides() -> None:
    now = 0.0

    def takes(seconds: float) -> None:
        nonlocal now
        now += seconds

    def way(*seconds: float) -> list[Callable[[], None]]:
        return [partial(takes, each) for each in seconds]

    assert fastest([way(3, 3, 3), way(9, 2, 2)], lambda: now) == 1
    assert fastest([way(3, 3, 3), way(1, 4, 4)], lambda: now) == 0


@pytest.mark.skipif(not packed.packs(), reason="this build of torch has no oneDNN")
@pytest.mark.parametrize("rows", [1, 5, 64, 321])
@pytest.mark.parametrize("bias", [True, False])
def test_packed_weights_give_the_numbers_of_the_plain_ones(rows: int, bias: bool) -> None:
    layer, x = nn.Linear(24, 37, bias=bias), torch.randn(rows, 24)
    with torch.inference_mode():
        torch.testing.assert_close(packed.product(x, packed.pack(layer.weight), layer.bias), layer(x))


def test_a_weight_is_packed_when_it_is_used_often_and_anew_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x, packs = nn.Linear(24, 37), torch.randn(5, 24), []
    monkeypatch.setattr(packed, "packed_is_faster", lambda *shape: True)
    monkeypatch.setattr(packed, "packs", lambda: True)
    monkeypatch.setattr(packed, "pack", lambda weight: packs.append(1) or weight.clone())
    monkeypatch.setattr(packed, "product", F.linear)

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
