"""Masks, drawn by hand."""

import torch
from torch.testing import assert_close

from regard.attention import masks


def drawn(picture: str) -> torch.Tensor:
    return torch.tensor([[c == "x" for c in line] for line in picture.split()])


def test_padding():
    assert_close(masks.padding(torch.tensor([3, 0, 5]), 5)[:, 0], drawn("xxx.. ..... xxxxx"))


def test_causal():
    assert_close(masks.causal(3, 3), drawn("x.. xx. xxx"))
    assert_close(masks.causal(2, 5), drawn("xxxx. xxxxx"))
    assert_close(masks.causal(3, 2), drawn(".. x. xx"))


def test_window():
    assert_close(masks.window(4, 4, left=1, right=0), drawn("x... xx.. .xx. ..xx"))
    assert_close(masks.window(2, 5, left=2, right=1), drawn(".xxxx ..xxx"))


def test_prefix():
    assert_close(masks.prefix(4, 4, length=2), drawn("xx.. xx.. xxx. xxxx"))


def test_masks_combine():
    both = masks.padding(torch.tensor([1, 3]), 3) & masks.causal(3, 3)
    assert_close(both, torch.stack([drawn("x.. x.. x.."), drawn("x.. xx. xxx")]))
    either = masks.window(3, 3, 0, 0) | masks.prefix(3, 3, 1)
    assert_close(either, drawn("x.. xx. xxx"))


def test_equal_to_windows_made_of_causal_masks():
    for Q, K in [(5, 7), (7, 5), (1, 4), (0, 3), (3, 0)]:
        assert_close(masks.window(Q, K, left=K + Q, right=0), masks.causal(Q, K))
        assert masks.window(Q, K, left=K + Q, right=K + Q).all()
        assert_close(masks.prefix(Q, K, length=0), masks.causal(Q, K))
