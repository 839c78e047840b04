"""The leading dimensions `*b` that several tensors have together."""

from itertools import zip_longest

from torch import Size, Tensor


def leading_shape(*tensors: Tensor) -> Size:
    """Of tensors "*b N D", all of `*b` after broadcasting: sizes must be the same or 1, counted from the right.

    `torch.broadcast_shapes` knows symbolic sizes as well, for which it imports sympy: half a second of a start.
    """
    lead: list[int] = []
    for sizes in zip_longest(*(tensor.shape[-3::-1] for tensor in tensors), fillvalue=1):
        size = next((size for size in sizes if size != 1), 1)
        if any(one not in (1, size) for one in sizes):
            raise ValueError(f"the leading dimensions do not fit together: {[tuple(x.shape) for x in tensors]}")
        lead.append(size)
    return Size(reversed(lead))
