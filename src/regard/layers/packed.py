"""A linear layer whose weights are laid out for the processor once, and used again and again.

    y = x Wᵀ + b        plain: as torch does it        packed: W in blocks of the size that oneDNN's kernel reads

Libraries for matrices copy W into such blocks at each product, which for few rows of x costs as much as the product. A
decoder uses the same W at every step, so the blocks are kept; they take the memory of W a second time. Which way is
faster depends on the processor and on how many rows there are, so both are timed at the first product of a kind, and
the choice is kept. A weight is packed once it was used often enough for that to pay, and anew after it was changed.

MKL has a packed form, too (`torch.ops.mkl`), but it is promised for one number of rows only, and a batch changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.fastest import fastest

USES = 24  # of a weight for a few rows, before it is packed: a single short output is done by then
ROWS = (1, 8, 64, 512)  # what is faster is asked once for each range of rows, up to these; above, always packed
TIMED_FEATURES = 1024  # of a larger matrix, a part says as much
ROUNDS = 5
LIKELY_ROWS = 64  # the blocks are chosen for so many rows, and serve for any number; so many count as one use


@dataclass
class Packing:
    """What is known of a layer's weight: which one it is, how often it was used, and its other forms."""

    version: tuple[int, int]
    uses: int = 0
    blocks: Tensor | None = None
    turned: Tensor | None = None  # the one of `one_row`


_packings: WeakKeyDictionary[nn.Linear, Packing] = WeakKeyDictionary()


def linear(layer: nn.Module, x: Float[Tensor, "N D"]) -> Float[Tensor, "N E"]:
    """What `layer(x)` is."""
    if type(layer) is not nn.Linear or layer._forward_pre_hooks or layer._forward_hooks:  # a masked head has one
        return layer(x)
    weight = layer.weight
    if torch.compiler.is_compiling():  # also while a graph is exported, for which the blocks are not
        return layer(x)
    if torch.is_grad_enabled() or weight.device.type != "cpu" or weight.dtype != torch.float32:
        return layer(x)
    packing = used(layer, len(x))
    if (
        packing.uses <= USES
        or not packs()
        or not packed_is_faster(*weight.shape, _range(len(x)), torch.get_num_threads())
    ):
        return F.linear(x, weight, layer.bias)
    if packing.blocks is None:
        packing.blocks = pack(weight)
    return product(x, packing.blocks, layer.bias)


def used(layer: nn.Linear, rows: int = 1) -> Packing:
    """What is known of its weight, with one use more; nothing of before, if the weight was changed."""
    weight = layer.weight
    packing, version = _packings.get(layer), (weight.data_ptr(), 0 if weight.is_inference() else weight._version)
    if packing is None or packing.version != version:
        packing = _packings[layer] = Packing(version)
    packing.uses += max(1, rows // LIKELY_ROWS)
    return packing


@cache
def packs() -> bool:
    """Whether this build of torch and this processor have the kernels."""
    if not torch.backends.mkldnn.is_available():
        return False
    try:
        product(torch.ones(1, 8), pack(torch.ones(8, 8)), None)
    except (RuntimeError, AttributeError):
        return False
    return True


def pack(weight: Float[Tensor, "E D"]) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), LIKELY_ROWS)


def product(x: Float[Tensor, "N D"], blocks: Tensor, bias: Float[Tensor, " E"] | None) -> Float[Tensor, "N E"]:
    return torch.ops.mkldnn._linear_pointwise(x, blocks, bias, "none", [], "")


@cache
@torch.no_grad()
def packed_is_faster(features: int, width: int, rows: int, threads: int) -> bool:
    """Timed once for a shape, in some milliseconds."""
    x = torch.ones(rows, width)
    matrices: Sequence[Tensor] = torch.ones(ROUNDS, min(features, TIMED_FEATURES), width).unbind()
    packed = [pack(matrix) for matrix in matrices]
    return fastest([[partial(F.linear, x, w) for w in matrices], [partial(product, x, w, None) for w in packed]]) == 1


def _range(rows: int) -> int:
    return next((most for most in ROWS if rows <= most), ROWS[-1])
