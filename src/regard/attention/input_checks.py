"""Input checks of `attend`: shapes, types and NaN.

Shapes and types are checked on every call: this reads no numbers, so it does not wait for a GPU.
"""

import torch
from torch import Tensor

from regard.attention.leading_shape import leading_shape


def require_matching(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, bias: Tensor | None, dropout: float
) -> None:
    """Raise a ValueError that names the argument if the arguments of `attend` do not fit each other."""
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(
            f"mask is {_name(mask.dtype)}, but masks are bool and True = may attend. Convert ones and zeros "
            "with mask.bool(), a mask of positions to hide with ~mask; pass numbers to add to the scores as bias"
        )
    for name, x in (("query", query), ("key", key), ("value", value), ("bias", bias)):
        if x is None:
            continue
        if not x.is_floating_point():
            raise ValueError(f"{name} is {_name(x.dtype)}, but attention needs floating point")
        if x.dim() < 2 and x is not bias:
            raise ValueError(f"{name} has shape {tuple(x.shape)}, but must be (..., vectors, width)")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"there are {key.shape[-2]} keys and {value.shape[-2]} values; each key needs its value")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout={dropout} must be at least 0 and below 1")
    try:
        lead = leading_shape(query, key, value)
    except ValueError:
        shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        raise ValueError(f"the leading dimensions do not fit together: {shapes}") from None
    table = (*lead, query.shape[-2], key.shape[-2])
    for name, x in (("mask", mask), ("bias", bias)):
        if x is not None and not _broadcasts(x, table):
            raise ValueError(f"{name} has shape {tuple(x.shape)}, which does not broadcast to (..., Q, K) = {table}")


def clear_hidden(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Set keys and values that no query may see to zero, and queries that may see no key."""
    seen = mask.any(-2).unsqueeze(-1)
    key, value = key.masked_fill(~_shared(seen, key), 0), value.masked_fill(~_shared(seen, value), 0)
    if mask.shape[-2] > 1:
        query = query.masked_fill(~_shared(mask.any(-1, keepdim=True), query), 0)
    return query, key, value


def looks_wrong(context: Tensor) -> bool:
    """Whether the result may contain a NaN: a fast test in one pass."""
    # Zeros count, too: for a query whose scores are all NaN, torch's CPU kernel returns zeros.
    return not bool(context.detach().sum().isfinite()) or bool((context[..., :1] == 0).any())


def require_finite(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, context: Tensor) -> None:
    """Raise a ValueError that names the source of a NaN, if there is one. Hidden positions must be cleared before."""
    arguments = {"query": query, "key": key, "value": value, "bias": bias}
    guilty = [name for name, x in arguments.items() if x is not None and not x.isfinite().all()]
    if guilty:
        raise ValueError(f"NaN or infinity in {' and '.join(guilty)}, at a position that the mask does not hide")
    if not context.isfinite().all():
        raise ValueError(
            f"the scores or their weighted sum overflow {_name(value.dtype)}, though query, key and value are finite"
        )


def _shared(seen: Tensor, x: Tensor) -> Tensor:
    """Return `any` of `seen` over the leading dimensions that x shares (such as keys shared by heads)."""
    seen = seen.reshape(*(1,) * (x.dim() - seen.dim()), *seen.shape)
    extra = seen.dim() - x.dim()
    for dim in range(seen.dim() - 2):
        if dim < extra or x.shape[dim - extra] == 1:
            seen = seen.any(dim, keepdim=True)
    return seen.reshape(seen.shape[extra:])


def _broadcasts(x: Tensor, shape: tuple[int, ...]) -> bool:
    return x.dim() <= len(shape) and all(n in (1, m) for n, m in zip(x.shape[::-1], shape[::-1], strict=False))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
