"""Positions: the formula entry by entry, what a good position should be, and the error past the end."""

import math

import pytest
import torch
from torch.testing import assert_close

from regard.attention import Alibi, Learned, LearnedGrid, RelativeBias, Rotary, Sinusoidal, SinusoidalGrid, sinusoids


@pytest.mark.parametrize("width", [1, 5, 8])
def test_sinusoids_entry_by_entry(width):
    table = sinusoids(50, width)
    for t in (0, 1, 7, 49):
        for d in range(width):
            angle = t / 10000 ** ((d - d % 2) / width)
            assert table[t, d] == pytest.approx(math.cos(angle) if d % 2 else math.sin(angle), abs=1e-6)


def test_sinusoids_are_unique_bounded_and_distances_consistent():
    table = sinusoids(500, 64)
    assert table.abs().max() <= 1
    gaps = torch.cdist(table, table) + 9 * torch.eye(500)
    assert gaps.min() > 0.1
    products = table @ table.T
    for distance in (1, 5, 40):  # PE(t)·PE(t + n) is the same for every t
        assert_close(products.diagonal(distance), products[0, distance].expand(500 - distance), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("start", [0, 3, 1022, 5000])
def test_sinusoidal_adds_at_any_length(start):
    x = torch.randn(2, 5, 6)
    expected = x + sinusoids(start + 5, 6)[start:]
    assert_close(Sinusoidal(6)(x, start), expected)
    assert "table" not in Sinusoidal(6).state_dict()


@pytest.mark.parametrize("module", [Sinusoidal(4, combine="concat"), Learned(4, 20, combine="concat")])
def test_concatenated(module):
    x = torch.randn(2, 5, 6)
    y = module(x, start=3)
    assert y.shape == (2, 5, 10)
    assert_close(y[..., :6], x)
    assert_close(y[1, :, 6:], module.table[3:8])


def test_learned_and_its_end():
    module = Learned(6, 8)
    x = torch.randn(2, 5, 6)
    assert_close(module(x, start=3), x + module.table[3:])
    with pytest.raises(ValueError, match="reaches position 9, but positions were learned up to 8"):
        module(x, start=4)
    module(x).sum().backward()
    assert_close(module.table.grad, torch.tensor([2.0] * 5 + [0.0] * 3).unsqueeze(1).expand(8, 6))


def test_bad_widths_and_words():
    with pytest.raises(ValueError, match=r"width 4 cannot be added to vectors of width 6.*concat"):
        Sinusoidal(4)(torch.randn(2, 5, 6))
    with pytest.raises(ValueError, match="head_width=5 must be even"):
        Rotary(5)
    with pytest.raises(ValueError, match="vectors have width 6, but rotary positions were built for 4"):
        Rotary(4)(torch.randn(2, 5, 6))


@pytest.mark.parametrize("width", [7, 8])
def test_grids_say_row_and_column(width):
    half = width // 2
    zeros = torch.zeros(2, 3 * 5, width)
    y = SinusoidalGrid(width)(zeros, grid=(3, 5)).view(2, 3, 5, width)
    assert_close(y[0, 2, 4, :half], sinusoids(3, half)[2])
    assert_close(y[1, 2, 4, half:], sinusoids(5, width - half)[4])
    module = LearnedGrid(width, 4, 6)
    y = module(zeros, grid=(3, 5)).view(2, 3, 5, width)
    assert_close(y[0, 1, 3], torch.cat([module.rows[1], module.columns[3]]))
    assert LearnedGrid(4, 3, 5, combine="concat")(zeros, grid=(3, 5)).shape == (2, 15, width + 4)


def test_grids_that_do_not_fit():
    x = torch.zeros(2, 15, 8)
    with pytest.raises(ValueError, match="grid=3×4 has 12 cells, but there are 15 vectors"):
        SinusoidalGrid(8)(x, grid=(3, 4))
    with pytest.raises(ValueError, match="the grid is 5×3, but positions were learned for 4×6"):
        LearnedGrid(8, 4, 6)(x, grid=(5, 3))


def test_rotary_by_hand_and_distance_only():
    rotary = Rotary(2)
    turned = rotary(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), start=2)
    assert_close(turned, torch.tensor([[math.cos(2), math.sin(2)], [math.cos(3), math.sin(3)]]))
    rotary = Rotary(6)
    q, k = torch.randn(1, 6), torch.randn(1, 6)
    for distance in (0, 1, 9):
        products = [rotary(q, s) @ rotary(k, s + distance).T for s in (0, 4, 100)]
        assert_close(products[1], products[0], rtol=1e-4, atol=1e-4)
        assert_close(products[2], products[0], rtol=1e-4, atol=1e-4)
    assert_close(rotary(q, 7).norm(), q.norm())
    assert rotary(q.bfloat16(), 300).dtype == torch.bfloat16


def test_alibi_by_hand():
    assert_close(Alibi(8).slopes, torch.tensor([2.0**-n for n in range(1, 9)]))
    assert_close(Alibi(3).slopes, torch.tensor([2.0**-4, 2.0**-8, 2.0**-2]))
    bias = Alibi(2)(2, 4)
    assert bias.shape == (2, 2, 4)
    assert_close(bias[0], -(2.0**-4) * torch.tensor([[2.0, 1.0, 0.0, 1.0], [3.0, 2.0, 1.0, 0.0]]))


def test_buckets_of_relative_positions():
    """Worked out from the rule of T5: 32 buckets, half a side; 0 to 7 have one each, 128 and beyond the last."""
    both = RelativeBias(3)
    distance = torch.tensor([[0, -1, 1, -7, 7, -8, -15, -16, -127, -128, -5000, 5000]])
    assert both._bucket(distance).tolist() == [[0, 1, 17, 7, 23, 8, 9, 10, 15, 15, 15, 31]]
    past = RelativeBias(3, both_ways=False)
    assert past._bucket(distance).tolist() == [[0, 1, 0, 7, 0, 8, 15, 16, 31, 31, 31, 0]]
    bias = both(3, 5)
    assert bias.shape == (3, 3, 5)
    assert_close(bias[:, 2, 4], both.bias[:, 0])  # the last query stands beside the last key
    assert_close(bias[:, 0, 3], both.bias[:, 17])


def test_relative_positions_that_make_no_sense():
    with pytest.raises(ValueError, match="buckets=3 must be even"):
        RelativeBias(2, buckets=3)
    with pytest.raises(ValueError, match="farthest=8 must be greater"):
        RelativeBias(2, buckets=16, farthest=8)
