"""The kernels of training as functions of tensors: float32, on a CPU. `gradients` adds autograd.

product     A B, with bias, relu or a mask of signs         training.c
transposed  Aᵀ B, and the sums of A's columns               training.c
attend      attention of short texts, and its gradient      training_attend.c
entropy     softmax and cross-entropy of each row           training_rows.c
dropped     dropout, and the sum with a residual            training_rows.c

`suits` returns whether to use them: if there are kernels and they are faster than torch. This is timed once and saved,
so that a resumed training run computes the same bits.
"""

import ctypes
import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.kernels.compiled import Kernels, compile_kernels
from regard.kernels.inference import FLOAT, INT, LONG, POINTER

_KERNELS = Kernels(
    {
        "training_pack": (POINTER, LONG, LONG, LONG, LONG, POINTER),
        "training_product": (
            *(POINTER, LONG, LONG, LONG, POINTER, LONG, LONG, LONG),
            *(POINTER, POINTER, INT, POINTER, LONG, LONG),
        ),
        "training_turned": (POINTER, LONG, LONG, LONG, POINTER, LONG, LONG, POINTER, INT, POINTER, LONG, LONG),
        "training_attend": (*[POINTER] * 4, INT, POINTER, POINTER, *[LONG] * 7, POINTER, POINTER, LONG),
        "training_attend_gradient": (*[POINTER] * 7, *[LONG] * 7, *[POINTER] * 3, LONG),
        "training_entropy": (POINTER, LONG, LONG, POINTER, FLOAT, POINTER, POINTER, LONG),
        "training_dropout": (POINTER, POINTER, LONG, ctypes.c_int64, LONG, FLOAT, POINTER, LONG),
    }
)
_loaded = _KERNELS.load
ADD, RELU, WHERE = 1, 2, 4
WORTH = 2**22  # multiplications of a product; below this, calling the kernels costs more than it saves
SUMMED = 384  # rows that the kernel of dW processes at a time
MOST_KEYS = 128  # of attention that keeps its weights
TIMED = (384, 256, 512)  # rows, inputs and outputs of the layer that is timed
GAIN = 0.97  # of torch's time, at most
ROUNDS = 7


def suits(*tensors: Tensor) -> bool:
    """Whether gradients are needed, no hook or graph export is active, and the kernels are faster."""
    return (
        not torch.compiler.is_compiling()
        and torch.is_grad_enabled()
        and all(
            type(one) in (Tensor, nn.Parameter) and one.dtype == torch.float32 and one.device.type == "cpu"
            for one in tensors
        )
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._is_tracing()
        and not torch._C._len_torch_function_stack()
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._are_functorch_transforms_active()
        and faster(torch.get_num_threads())
    )


@cache
def faster(threads: int) -> bool:
    """Return the saved result of the timing on this machine, or time now."""
    if _KERNELS.there is None:
        return False
    note = compile_kernels().with_suffix(f".training-{threads}")
    if not note.exists():
        found = "kernels" if _is_faster() else "torch"
        try:
            _write_first(note, found)
        except OSError:  # the cache cannot be written: the result is for this process only
            return found == "kernels"
    return note.read_text(encoding="utf-8") == "kernels"


def _write_first(note: Path, text: str) -> None:
    """Write the note, unless another process was first: its result is valid for all."""
    mine = note.with_name(f"{note.name}.{os.getpid()}")
    try:
        mine.write_text(text, encoding="utf-8")
        try:
            os.link(mine, note)
        except OSError:
            if not note.exists():
                os.replace(mine, note)
    finally:
        mine.unlink(missing_ok=True)


@torch.no_grad()
def _is_faster() -> bool:
    """Time both ways alternately. Other load only makes calls slower, so the fastest call counts."""
    rows, inputs, outputs = TIMED
    x, gradient = torch.ones(rows, inputs), torch.ones(rows, outputs)
    weight, bias = torch.ones(outputs, inputs), torch.ones(outputs)

    def by_torch() -> object:
        return F.linear(x, weight, bias), gradient @ weight, gradient.T @ x, gradient.sum(0)

    def by_kernels() -> object:
        return (
            product(x, weight.T, bias),
            product(gradient, weight),
            transposed_product(gradient, x, torch.zeros(outputs)),
        )

    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    taken: dict[Callable[[], object], list[float]] = {by_torch: [], by_kernels: []}
    for _ in range(ROUNDS):
        for way, seconds in taken.items():
            start = clock()
            way()
            seconds.append(clock() - start)
    return min(taken[by_kernels]) < GAIN * min(taken[by_torch])


@cache
def lanes() -> int:
    """Return the number of floats of a vector register."""
    return int(_loaded().training_lanes())


def pack_matrix(matrix: Float[Tensor, "K N"]) -> "Packed":
    """Pack a matrix, or a transpose, for several products."""
    width = 2 * lanes()
    depth, columns = matrix.shape
    numbers = torch.empty(-(-columns // width) * width * depth)
    _loaded().training_pack(matrix.data_ptr(), *matrix.stride(), depth, columns, numbers.data_ptr())
    return Packed(numbers, depth, columns)


class Packed(NamedTuple):
    """A matrix packed for `product`."""

    numbers: Float[Tensor, " size"]
    depth: int
    columns: int


def product(
    a: Float[Tensor, "M K"],
    b: Float[Tensor, "K N"] | Packed,
    bias: Float[Tensor, " N"] | None = None,
    *,
    relu: bool = False,
    where: Float[Tensor, "M N"] | None = None,
    out: Float[Tensor, "M N"] | None = None,
) -> Float[Tensor, "M N"]:
    """Return A B + bias, optionally with relu, or 0 where `where` is not positive. B may be a transpose."""
    a = a if a.stride(1) == 1 else a.contiguous()
    matrix, columns = (b.numbers, b.columns) if isinstance(b, Packed) else (b, b.shape[1])
    c = a.new_empty(len(a), columns) if out is None else out
    strides = (0, 0) if isinstance(b, Packed) else _strides(b)
    assert where is None or where.stride() == c.stride()
    how = RELU * relu + WHERE * (where is not None)
    _loaded().training_product(
        a.data_ptr(), a.stride(0), *a.shape, matrix.data_ptr(), *strides, columns, _place(bias), _place(where), how,
        c.data_ptr(), c.stride(0), torch.get_num_threads(),
    )  # fmt: skip
    return c


def table(rows: int, width: int) -> Float[Tensor, "N E"]:
    """Return a table for operands of products, with spare room between rows.

    Rows at a distance of a power of two would map to the same sets of the cache.
    """
    return torch.empty(rows, width + 16 if width % 1024 == 0 else width)[:, :width]


def transposed_product(
    a: Float[Tensor, "K M"],
    b: Float[Tensor, "K N"],
    sums: Float[Tensor, " M"] | None = None,
    *,
    add_to: Float[Tensor, "M N"] | None = None,
) -> Float[Tensor, "M N"]:
    """Return Aᵀ B, or add it to a table; add the sums of A's columns to `sums`."""
    a, b = (one if one.stride(1) == 1 else one.contiguous() for one in (a, b))
    c = a.new_empty(a.shape[1], b.shape[1]) if add_to is None else add_to
    _loaded().training_turned(
        a.data_ptr(), a.stride(0), a.shape[1], len(a), b.data_ptr(), b.stride(0), b.shape[1], _place(sums),
        0 if add_to is None else ADD, c.data_ptr(), c.stride(0), torch.get_num_threads(),
    )  # fmt: skip
    return c


def can_attend(keys: int, width: int) -> bool:
    return keys <= MOST_KEYS and width % lanes() == 0


class WorkShares(NamedTuple):
    """Queries, keys and values with concatenated heads, in one table or two."""

    query: Float[Tensor, "*q D"]
    key: Float[Tensor, "*k D"]
    value: Float[Tensor, "*k D"]


class Texts(NamedTuple):
    """Texts concatenated in one table without padding; each attends to itself."""

    first: Int[Tensor, " B"]
    rows: Int[Tensor, " B"]  # both int32
    longest: int

    @classmethod
    def of(cls, real: Bool[Tensor, "B T"]) -> "Texts":
        """Return the texts whose real vectors are in the table."""
        count = real.sum(1)
        return cls((count.cumsum(0) - count).int(), count.int(), real.shape[1])


def attend(
    parts: WorkShares, heads: int, real: Bool[Tensor, "B K"] | None, causal: bool, texts: Texts | None
) -> tuple[Float[Tensor, "*q D"], Float[Tensor, "B H Q P"]]:
    """Return contexts, and the weights for the gradient, with rows padded to whole vectors."""
    query, key, value = parts
    context, (number, queries, keys) = query.new_empty(query.shape), _sizes(parts, texts)
    weights = query.new_empty(number, heads, queries, -(-keys // lanes()) * lanes())
    _loaded().training_attend(
        query.data_ptr(), key.data_ptr(), value.data_ptr(), _place(real), causal, *_places(texts), number, queries,
        keys, heads, query.shape[-1] // heads, query.stride(-2), key.stride(-2), weights.data_ptr(),
        context.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return context, weights


def attend_gradient(
    parts: WorkShares,
    heads: int,
    weights: Float[Tensor, "B H Q P"],
    gradient: Float[Tensor, "*q D"],
    texts: Texts | None,
    out: WorkShares,
) -> None:
    """Write the gradients to `out`, with the layout of `parts`."""
    query, key, value = parts
    assert [one.stride() for one in parts] == [one.stride() for one in out]
    gradient = gradient.contiguous()
    _loaded().training_attend_gradient(
        query.data_ptr(), key.data_ptr(), value.data_ptr(), weights.data_ptr(), gradient.data_ptr(), *_places(texts),
        *_sizes(parts, texts), heads, query.shape[-1] // heads, query.stride(-2), key.stride(-2),
        *(one.data_ptr() for one in out), torch.get_num_threads(),
    )  # fmt: skip


def _sizes(parts: WorkShares, texts: Texts | None) -> tuple[int, int, int]:
    """Return the maximum numbers of texts, queries and keys."""
    if texts is not None:
        return len(texts.first), texts.longest, texts.longest
    return len(parts.query), parts.query.shape[1], parts.key.shape[1]


def _places(texts: Texts | None) -> tuple[int | None, int | None]:
    return (None, None) if texts is None else (texts.first.data_ptr(), texts.rows.data_ptr())


def entropy(
    logits: Float[Tensor, "N V"], targets: Int[Tensor, " N"], smoothing: float
) -> tuple[Float[Tensor, " N"], Int[Tensor, " N"]]:
    """Return log Σ exp − (1 − ε) a[target], and whether the target has the largest logit.

    The table is overwritten with softmax − (1 − ε) onehot.
    """
    loss, right = logits.new_empty(len(logits)), torch.empty(len(logits), dtype=torch.int64)
    targets = targets.contiguous()
    _loaded().training_entropy(
        logits.data_ptr(), *logits.shape, targets.data_ptr(), smoothing, loss.data_ptr(),
        right.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return loss, right


def dropped_share(p: float) -> int:
    """Return p in units of 2^−16, at most 1 − 2^−16: some elements are always kept."""
    return min(round(p * 2**16), 2**16 - 1)


def apply_dropout(x: Float[Tensor, "*b"] | None, y: Float[Tensor, "*b"], p: float, seed: int) -> Float[Tensor, "*b"]:
    """Return y with a share of p dropped, or x plus that; p is rounded to a multiple of 2^−16."""
    x, y = None if x is None else x.contiguous(), y.contiguous()
    out, dropped = torch.empty_like(y), dropped_share(p)
    _loaded().training_dropout(
        _place(x), y.data_ptr(), y.numel(), seed, dropped, 2**16 / (2**16 - dropped), out.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    return out


def _strides(matrix: Tensor) -> tuple[int, int]:
    row, column = matrix.stride()
    assert 1 in (row, column), "needs a matrix or a transpose"
    return row, column


def _place(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
