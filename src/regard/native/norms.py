"""Norm modules by the kernel, where there is one for them."""

from jaxtyping import Float
from torch import Tensor, nn

from regard.native import kernels


def normed(module: nn.Module, x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    """What `module(x)` is, outside of autograd."""
    if isinstance(module, nn.LayerNorm | nn.RMSNorm) and len(module.normalized_shape) == 1 and module.eps is not None:
        shift = module.bias if isinstance(module, nn.LayerNorm) else None
        return kernels.norm(x, module.weight, shift, module.eps, rms=isinstance(module, nn.RMSNorm))
    return module(x)
