"""Broadcast of the leading dimensions `*b` of several tensors."""

from itertools import zip_longest

from torch import Size, Tensor


def leading_shape(*tensors: Tensor) -> Size:
    """Return the broadcast `*b` of tensors "*b N D": sizes must be equal or 1, counted from the right.

    `torch.broadcast_shapes` also handles symbolic sizes, and imports sympy for it, which takes half a second.
    """
    lead: list[int] = []
    for sizes in zip_longest(*(tensor.shape[-3::-1] for tensor in tensors), fillvalue=1):
        size = next((size for size in sizes if size != 1), 1)
        if any(one not in (1, size) for one in sizes):
            raise ValueError(f"the leading dimensions do not fit together: {[tuple(x.shape) for x in tensors]}")
        lead.append(size)
    return Size(reversed(lead))
