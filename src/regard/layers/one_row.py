"""One row times a matrix, by the way that is the faster one here.

    y = x Wᵀ + b        whole: one product        in blocks: W cut into blocks of rows, each gives its own part of y

Such a product is nothing but reading W from memory. Some libraries for matrices read it with one core if x has one row
only; as a batch of products, one a block, all cores share it, with no copy of W. Others share the whole product well
and the batch badly: which way is faster, by up to four times either way, depends on the processor and the library. And
where other programs use the cores, each shared product waits for them. So both are timed at the first product of a
shape, on rows that lie in memory and in no cache, and the choice is kept.
"""

from collections.abc import Callable
from functools import cache, partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.fastest import fastest

BLOCKS = 2  # a core
TIMED = 16 * 2**20  # bytes that each way reads when it is timed
ROUNDS = 9  # products that each way is timed with


def product_of(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    """What a layer does to one row, without its hooks."""
    if type(layer) is not nn.Linear:
        return layer.forward
    return partial(one_row, weight=layer.weight, bias=layer.bias)


def one_row(
    x: Float[Tensor, "1 D"], weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None = None
) -> Float[Tensor, "1 E"]:
    threads = torch.get_num_threads()
    divided = threads > 1 and x.device.type == "cpu" and len(weight) % (BLOCKS * threads) == 0
    if divided and weight.is_contiguous() and blocks_are_faster(*weight.shape, weight.dtype, threads):
        y = in_blocks(x, weight)
        return y if bias is None else y + bias
    return F.linear(x, weight, bias)


def in_blocks(x: Float[Tensor, "1 D"], weight: Float[Tensor, "E D"]) -> Float[Tensor, "1 E"]:
    blocks = BLOCKS * torch.get_num_threads()
    # x.mT, not x.view(-1, 1): the same numbers, but the strides of a view lead to a kernel four times as slow.
    return torch.bmm(weight.view(blocks, -1, weight.shape[1]), x.mT.expand(blocks, -1, -1)).view(1, -1)


@cache
@torch.no_grad()
def blocks_are_faster(rows: int, width: int, dtype: torch.dtype, threads: int) -> bool:
    """Timed once for a shape, in some milliseconds."""
    unit = BLOCKS * threads
    most = TIMED // (width * dtype.itemsize * ROUNDS) // unit * unit  # of a larger matrix, a part says as much
    matrices = torch.ones(ROUNDS, max(unit, min(rows, most)), width, dtype=dtype)
    row = torch.ones(1, width, dtype=dtype)
    return fastest([[partial(way, row, matrix) for matrix in matrices] for way in (F.linear, in_blocks)]) == 1
