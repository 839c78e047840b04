"""One row times a matrix, shared out among the cores: the same numbers as the plain product."""

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile

from regard.layers.one_row import one_row


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


def test_blocks_are_a_batch_where_there_are_cores_to_share_them() -> None:
    def ran(threads: int) -> set[str]:
        torch.set_num_threads(threads)
        x, weight = torch.randn(1, 8), torch.randn(16, 8)
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            one_row(x, weight)
        return {event.key for event in seen.key_averages()}

    assert "aten::bmm" in ran(2)
    assert "aten::bmm" not in ran(1)
