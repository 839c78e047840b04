"""Multi-head attention in training, with the compiled kernels (`native`) where they apply: heads stay side by side.

See `multihead` for the equation.
"""

from jaxtyping import Float
from torch import Tensor

from regard.attention.cache import KeyValue
from regard.attention.projections import Projections
from regard.attention.scaled_dot import ScaledDot
from regard.attention.trace import tracing
from regard.native import gradients


def trained(
    part: Projections,
    x: Float[Tensor, "N Q D"],
    memory: Tensor | KeyValue | None,
    mask: Tensor | None,
    causal: bool,
) -> Float[Tensor, "N Q D"] | None:
    """Return the output, or None where the kernels do not apply."""
    if isinstance(memory, KeyValue) or not part.training or not plain(part) or part.dropout or tracing() is not None:
        return None
    if x.dim() != 3 or x.shape[-1] != part.width or (memory is None) != (part.memory_width is None):
        return None
    if memory is not None and (causal or memory.shape != (x.shape[0], memory.shape[1], part.memory_width)):
        return None
    if mask is not None and mask.shape != (x if memory is None else memory).shape[:2]:
        return None
    if not gradients.attends(x, memory, part.heads):
        return None
    first = gradients.apply(part.project, x)
    second = None if memory is None else gradients.apply(part.project_kv, memory)
    return gradients.apply(part.out, gradients.attend(first, second, part.heads, mask, causal=causal))


def plain(part: Projections) -> bool:
    """Whether this is scaled dot product with as many keys as heads and no positions inside the attention."""
    return (
        type(part.score) is ScaledDot
        and part.rotary is None
        and part.relative is None
        and part.sizes == (part.width,) * 3
    )
