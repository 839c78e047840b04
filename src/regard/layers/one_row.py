"""One row times a matrix: y = x Wᵀ + b, whose cost is reading W from memory.

Some matrix libraries read it with one core if x has only one row, others in an order that suits many rows.
The kernel of `native/panels.h` reads W in memory order, row by row, with prefetching, and all cores share the work.
"""

from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.quantized import QuantizedLinear
from regard.native import kernels


def one_row(layer: nn.Module, x: Float[Tensor, "1 D"]) -> Float[Tensor, "1 E"]:
    """Return `layer(x)`, without autograd."""
    known = isinstance(layer, nn.Linear | QuantizedLinear)
    if known and not (layer._forward_pre_hooks or layer._forward_hooks) and kernels.available(x):
        kept = matrix(layer)
        if kept is not None:
            return kernels.linear_kept(x, kept)
    return layer(x)


def matrix(layer: nn.Module) -> kernels.Matrix | None:
    """Return a linear layer in the form of the kernels, or None if they do not support it."""
    if isinstance(layer, QuantizedLinear):
        return layer.matrix() if layer.columns > 1 and layer.kept.device.type == "cpu" else None
    if type(layer) is not nn.Linear or not kernels.available(layer.weight) or not layer.weight.is_contiguous():
        return None
    return kernels.matrix(layer.weight, kernels.FLOATS, layer.out_features, layer.in_features, bias=layer.bias)
