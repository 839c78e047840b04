"""The kernels as functions of tensors: float32, on a CPU, without gradients. `available` tests if there are any.

linear       y = x Wᵀ + b, by weights that are packed once            products.c
attend       one query a row, keys at given positions                 attend.c
norm         layer norm and RMS norm of each row                      rows.c
tanh_scores  wᵀ tanh(q + k) of each query with each key               tanh.c
normalizer   log Σ exp of each row                                    rows.c
best         the largest numbers of each row                          rows.c
linear_kept  y = x Wᵀ + b: one row, or weights in fewer bits          products.c, panels.h
single_step  one step of one text through all blocks of a decoder     single.c
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.kernels.compiled import Kernels

POINTER, LONG, INT, FLOAT = ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_float
_KERNELS = Kernels(
    {
        "pack": (POINTER, LONG, LONG, POINTER),
        "linear": (POINTER, LONG, LONG, LONG, POINTER, LONG, POINTER, INT, POINTER, LONG, LONG),
        "attend_places": (
            *(POINTER, LONG, LONG, LONG, LONG, POINTER, POINTER, LONG),
            *(POINTER, LONG, POINTER, POINTER, LONG),
        ),
        "attend_tiles": (POINTER, LONG, LONG, LONG, LONG, POINTER, POINTER, POINTER, POINTER, LONG),
        "tile": (POINTER, POINTER, LONG, LONG, POINTER, LONG, POINTER, LONG),
        "norm": (POINTER, LONG, LONG, POINTER, POINTER, FLOAT, INT, POINTER, LONG),
        "tanh_scores": (POINTER, POINTER, POINTER, LONG, LONG, LONG, LONG, POINTER, LONG),
        "normalizer": (POINTER, LONG, LONG, POINTER, LONG),
        "best": (POINTER, LONG, LONG, LONG, POINTER, POINTER, LONG),
        "linear_kept": (POINTER, LONG, LONG, POINTER, POINTER, LONG),
        "single_step": (
            *(POINTER, LONG, POINTER, *(LONG,) * 7),
            *(POINTER, POINTER, LONG, LONG, POINTER, POINTER, POINTER, LONG),
        ),
    }
)
_loaded = _KERNELS.load
RELU, ADD = 1, 2


def available(*tensors: Tensor) -> bool:
    """Return whether there are kernels for these tensors."""
    suited = all(one.dtype == torch.float32 and one.device.type == "cpu" for one in tensors)
    return suited and not torch.compiler.is_compiling() and _KERNELS.there is not None


class Panels(NamedTuple):
    """A packed matrix for `linear`."""

    numbers: Float[Tensor, " size"]
    outputs: int
    inputs: int


def pack(weight: Float[Tensor, "E D"]) -> Panels:
    outputs, inputs = weight.shape
    width = int(_loaded().panel_width())
    numbers = torch.empty(-(-outputs // width) * width * inputs)
    _loaded().pack(weight.contiguous().data_ptr(), outputs, inputs, numbers.data_ptr())
    return Panels(numbers, outputs, inputs)


def linear(
    x: Float[Tensor, "N D"],
    panels: Panels,
    bias: Float[Tensor, " E"] | None = None,
    *,
    relu: bool = False,
    out: Float[Tensor, "N E"] | None = None,
    add: bool = False,
) -> Float[Tensor, "N E"]:
    """Return x Wᵀ + b, or its relu; write it to `out`, or add it there."""
    if x.stride(1) != 1:
        x = x.contiguous()
    rows, inputs = x.shape
    y = x.new_empty(rows, panels.outputs) if out is None else out
    assert inputs == panels.inputs
    assert y.shape == (rows, panels.outputs)
    assert y.stride(1) == 1
    how = (ADD if add else 0) | (RELU if relu else 0)
    _loaded().linear(
        x.data_ptr(), x.stride(0), rows, inputs, panels.numbers.data_ptr(), panels.outputs, _place(bias),
        how, y.data_ptr(), y.stride(0), torch.get_num_threads(),
    )  # fmt: skip
    return y


def attend_places(
    query: Float[Tensor, "N D"],
    key: Float[Tensor, "P D"],
    value: Float[Tensor, "P D"],
    heads: int,
    places: Int[Tensor, "N T"],
    count: Int[Tensor, " N"],
) -> Float[Tensor, "N D"]:
    """Attend from row n to the keys at `places[n, :count[n]]`; both are int32."""
    assert query.stride(1) == key.stride(1) == value.stride(1) == places.stride(1) == 1
    assert key.stride(0) == value.stride(0)
    context = query.new_empty(query.shape)
    _loaded().attend_places(
        query.data_ptr(), query.stride(0), query.shape[0], heads, query.shape[1] // heads, key.data_ptr(),
        value.data_ptr(), key.stride(0), places.data_ptr(), places.stride(0), count.data_ptr(), context.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    return context


def tiles_of(
    key: Float[Tensor, "M D"],
    value: Float[Tensor, "M D"],
    count: Int[Tensor, " S"],
    out: Float[Tensor, "T E"] | None = None,
) -> Float[Tensor, "T E"]:
    """Return keys and values of S concatenated sentences in the tiles of `attend_tiles`."""
    assert key.stride(1) == value.stride(1) == 1
    assert key.stride(0) == value.stride(0)
    if out is None:
        out = key.new_empty(int(tiles_for(count).sum()), 2 * lanes() * key.shape[1])
    _loaded().tile(
        key.data_ptr(), value.data_ptr(), key.stride(0), key.shape[1], count.data_ptr(), len(count), out.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    return out


def attend_tiles(
    query: Float[Tensor, "N D"],
    tiles: Float[Tensor, "T E"],
    heads: int,
    first: Int[Tensor, " N"],
    count: Int[Tensor, " N"],
) -> Float[Tensor, "N D"]:
    """Attend from row n to `count[n]` keys, from tile `first[n]` on; both are int32."""
    assert query.stride(1) == 1
    context = query.new_empty(query.shape)
    _loaded().attend_tiles(
        query.data_ptr(), query.stride(0), query.shape[0], heads, query.shape[1] // heads, tiles.data_ptr(),
        first.data_ptr(), count.data_ptr(), context.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip
    return context


@cache
def lanes() -> int:
    """Return the number of keys of a tile."""
    return int(_loaded().lanes())


def tiles_for(count: Int[Tensor, " S"]) -> Int[Tensor, " S"]:
    """Return the number of tiles for this many keys."""
    return (count + (lanes() - 1)) // lanes()


def norm(
    x: Float[Tensor, "N D"],
    scale: Float[Tensor, " D"] | None,
    shift: Float[Tensor, " D"] | None,
    eps: float,
    *,
    rms: bool = False,
) -> Float[Tensor, "N D"]:
    y = torch.empty_like(x)
    _loaded().norm(
        x.data_ptr(), *x.shape, _place(scale), _place(shift), eps, rms, y.data_ptr(), torch.get_num_threads()
    )
    return y


def tanh_scores(
    query: Float[Tensor, "B Q D"], key: Float[Tensor, "B K D"], weight: Float[Tensor, " D"]
) -> Float[Tensor, "B Q K"]:
    query, key, weight = query.contiguous(), key.contiguous(), weight.contiguous()
    (B, Q, D), K = query.shape, key.shape[1]
    assert key.shape == (B, K, D)
    assert weight.shape == (D,)
    table = query.new_empty(B, Q, K)
    _loaded().tanh_scores(
        query.data_ptr(), key.data_ptr(), weight.data_ptr(), B * Q, Q, K, D, table.data_ptr(), torch.get_num_threads()
    )
    return table


def normalizer(logits: Float[Tensor, "N V"]) -> Float[Tensor, " N"]:
    out = logits.new_empty(len(logits))
    _loaded().normalizer(logits.data_ptr(), *logits.shape, out.data_ptr(), torch.get_num_threads())
    return out


def most_best() -> int:
    """Return the largest count that `best` supports."""
    return int(_loaded().most_best())


def best(logits: Float[Tensor, "N V"], count: int) -> tuple[Float[Tensor, "N n"], Int[Tensor, "N n"]]:
    """Return the `count` largest numbers of each row and their columns, the largest first."""
    value = logits.new_empty(len(logits), count)
    place = torch.empty(value.shape, dtype=torch.int64)
    _loaded().best(logits.data_ptr(), *logits.shape, count, value.data_ptr(), place.data_ptr(), torch.get_num_threads())
    return value, place


def _place(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _there(*tensors: Tensor | None) -> list[Tensor]:
    """Return the tensors as they are now, so that later changes of a parameter have no effect."""
    return [one.detach() for one in tensors if one is not None]


class PackedMatrix(ctypes.Structure):
    """The matrix of panels.h."""

    tensors: list[Tensor]  # the tensors that it points to; copies of the structure must keep them, too
    _fields_ = (
        *((name, POINTER) for name in ("numbers", "scale", "bias")),
        *((name, LONG) for name in ("outputs", "inputs", "kind", "ahead")),
    )


class Norm(ctypes.Structure):
    tensors: list[Tensor]
    _fields_ = (("scale", POINTER), ("shift", POINTER), ("eps", FLOAT), ("rms", INT))


class KernelLayer(ctypes.Structure):
    """The block of a decoder in single.c."""

    _fields_ = (
        *((name, Norm) for name in ("before_attention", "before_wide")),
        *((name, PackedMatrix) for name in ("project", "out", "widen", "narrow")),
    )


FLOATS, TWELVES, BYTES = range(3)
FOUR = 4  # inputs of a quantized panel are padded to a multiple of this


def panel_width() -> int:
    """Return the number of outputs of a panel."""
    return int(_loaded().panel_width())


def matrix(
    numbers: Tensor,
    kind: int,
    outputs: int,
    inputs: int,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    ahead: int = 0,
) -> PackedMatrix:
    made = PackedMatrix(numbers.data_ptr(), _place(scale), _place(bias), outputs, inputs, kind, ahead)
    made.tensors = _there(numbers, scale, bias)
    return made


def linear_kept(x: Float[Tensor, "N D"], weight: PackedMatrix) -> Float[Tensor, "N E"]:
    """Return x Wᵀ. Float matrices support one row only."""
    if x.stride(1) != 1:
        x = x.contiguous()
    y = x.new_empty(len(x), weight.outputs)
    _loaded().linear_kept(
        x.data_ptr(), x.stride(0), len(x), ctypes.byref(weight), y.data_ptr(), torch.get_num_threads()
    )
    return y


def norm_weights(
    scale: Float[Tensor, " D"] | None, shift: Float[Tensor, " D"] | None, eps: float, *, rms: bool
) -> Norm:
    made = Norm(_place(scale), _place(shift), eps, rms)
    made.tensors = _there(scale, shift)
    return made


def pointers(tensors: Sequence[Tensor]) -> "ctypes.Array[ctypes.c_void_p]":
    return (POINTER * len(tensors))(*(one.data_ptr() for one in tensors))


def single_step(
    layers: ctypes.Array[KernelLayer],
    last: Norm | None,
    sizes: Sequence[int],
    keys: "ctypes.Array[ctypes.c_void_p]",
    values: "ctypes.Array[ctypes.c_void_p]",
    places: int,
    place: int,
    turns: tuple[Float[Tensor, "2 T half"], int] | None,
    x: Float[Tensor, "1 D"],
) -> None:
    """Run one step in place on x; write keys and values of each layer at `place`, in buffers for `places`.

    last: the norm after the last layer
    sizes: width, heads, kv_heads, width of a key, width of a value, inner width of the feed-forward, number of f
    turns: cosines and sines of T positions, and the index of this position
    """
    cosine = sine = None
    if turns is not None:
        (table, row), (_, count, half) = turns, turns[0].shape
        cosine = table.data_ptr() + row * half * table.element_size()
        sine = cosine + count * half * table.element_size()
    _loaded().single_step(
        layers, len(layers), None if last is None else ctypes.byref(last), *sizes, keys, values, places, place,
        cosine, sine, x.data_ptr(), torch.get_num_threads(),
    )  # fmt: skip


# Norm modules computed by a kernel, if there is one.


def prepare_norm(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return a function that applies `module` to rows, without gradients."""
    if isinstance(module, nn.LayerNorm | nn.RMSNorm) and len(module.normalized_shape) == 1 and module.eps is not None:
        shift = module.bias if isinstance(module, nn.LayerNorm) else None
        return partial(norm, scale=module.weight, shift=shift, eps=module.eps, rms=isinstance(module, nn.RMSNorm))
    return module


def apply_norm(module: nn.Module, x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    return prepare_norm(module)(x)
