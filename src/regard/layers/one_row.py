"""One row times a matrix, by the way that is the fastest one here.

    y = x Wᵀ + b        whole: one product        in blocks: W cut into blocks of rows, each gives its own part of y
                        turned: one product, with W kept column by column: y = Σ_d x_d · (column d)

Such a product is nothing but reading W from memory. Some libraries for matrices read it with one core if x has one row
only; as a batch of products, one a block, all cores share it, with no copy of W. Others share the whole product well
and the batch badly. And row by row, each number of y waits for a sum along its row, where columns are added to all of y
at once: one core then reads W up to twice as fast, if W has more rows than columns. Which way is the fastest depends on
the processor and the library, so they are timed, on matrices that lie in memory and in no cache, and the choice is kept
for the shape. That is done once a weight was used often enough to pay for it; a turned one takes the memory of W again.
"""

from collections.abc import Callable
from functools import cache, partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.fastest import fastest
from regard.layers.packed import USES, used

BLOCKS = 2  # a core
TIMED = 16 * 2**20  # bytes that each way reads when it is timed
ROUNDS = 9  # products that each way is timed with


def product_of(layer: nn.Module) -> Callable[[Tensor], Tensor]:
    """What a layer does to one row, without its hooks."""
    return partial(one_row, layer) if type(layer) is nn.Linear else layer.forward


def one_row(layer: nn.Linear, x: Float[Tensor, "1 D"]) -> Float[Tensor, "1 E"]:
    weight, bias, packing = layer.weight, layer.bias, used(layer)
    if packing.uses <= USES or x.device.type != "cpu" or not weight.is_contiguous():
        return F.linear(x, weight, bias)
    way = fastest_way(*weight.shape, weight.dtype, torch.get_num_threads())
    if way is in_blocks:
        y = in_blocks(x, weight)
        return y if bias is None else y + bias
    if way is turned and packing.turned is None:
        packing.turned = turned(weight.detach())
    return F.linear(x, weight if packing.turned is None else packing.turned, bias)


def turned(weight: Float[Tensor, "*b E D"]) -> Float[Tensor, "*b E D"]:
    """The same matrix, kept column by column."""
    return weight.mT.contiguous().mT


def in_blocks(x: Float[Tensor, "1 D"], weight: Float[Tensor, "E D"]) -> Float[Tensor, "1 E"]:
    blocks = BLOCKS * torch.get_num_threads()
    # x.mT, not x.view(-1, 1): the same numbers, but the strides of a view lead to a kernel four times as slow.
    return torch.bmm(weight.view(blocks, -1, weight.shape[1]), x.mT.expand(blocks, -1, -1)).view(1, -1)


@cache
@torch.no_grad()
def fastest_way(rows: int, width: int, dtype: torch.dtype, threads: int) -> Callable[..., Tensor]:
    """`F.linear`, `in_blocks` or `turned`: timed once for a shape, in some milliseconds."""
    unit = BLOCKS * threads
    most = TIMED // (width * dtype.itemsize * ROUNDS) // unit * unit  # of a larger matrix, a part says as much
    matrices = torch.ones(ROUNDS, max(unit, min(rows, most)), width, dtype=dtype)
    row = torch.ones(1, width, dtype=dtype)
    ways: dict[Callable[..., Tensor], Tensor] = {F.linear: matrices, turned: turned(matrices)}
    if threads > 1 and rows % unit == 0:
        ways[in_blocks] = matrices
    product = {in_blocks: in_blocks}
    timed = [[partial(product.get(way, F.linear), row, one) for one in given] for way, given in ways.items()]
    return list(ways)[fastest(timed)]
