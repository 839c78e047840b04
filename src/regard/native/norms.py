"""Norm modules by the kernel, where there is one for them."""

from collections.abc import Callable
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from regard.native import kernels


def prepared(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """What `module` does to rows, outside of autograd."""
    if isinstance(module, nn.LayerNorm | nn.RMSNorm) and len(module.normalized_shape) == 1 and module.eps is not None:
        shift = module.bias if isinstance(module, nn.LayerNorm) else None
        return partial(
            kernels.norm, scale=module.weight, shift=shift, eps=module.eps, rms=isinstance(module, nn.RMSNorm)
        )
    return module


def normed(module: nn.Module, x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    return prepared(module)(x)
