"""Linear layers with weights that are packed for the processor once and used many times.

    y = x Wᵀ + b        plain: as torch does it        packed: W in blocks of the size that a kernel reads

Matrix libraries copy W into such blocks at each product, which for few rows of x costs as much as the product. A
decoder uses the same W at every step, so the blocks are kept, which takes the memory of W a second time. The kernel is
ours (`kernels/products.c`), or oneDNN's where there is no compiler. Which way is faster depends on the processor and
the
number of rows, so both are timed at the first product of a kind, and the choice is kept. A weight is packed once it was
used often enough to pay off, and again after it was changed.
"""

import mmap
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from threading import get_ident
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.kernels import inference

# Weights in large pages of memory (2 MB instead of 4 KB), if the system supports them.
#
# A step of a language model reads all weights once. With small pages a processor must look up an address every 4 KB,
# where prefetching stops.

LINE = 64  # bytes that a processor reads at once
WORTH_IT = 2**26  # bytes; smaller models mostly fit into caches


def copy_to_large_pages(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return copies of the tensors in large pages. Tensors on other devices are not copied."""
    if any(one.device.type != "cpu" for one in tensors):
        return list(tensors)
    return [place.copy_(one) for one, place in zip(tensors, _places(tensors), strict=True)]


def reserve(model: nn.Module) -> None:
    """Allocate all weights of a large CPU model in large pages, before they are loaded; their content is lost."""
    weights = list(model.parameters())
    if sum(one.nbytes for one in weights) >= WORTH_IT:
        for one, place in zip(weights, _places(weights), strict=True):
            one.data = place


def _places(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors of the same types and shapes, each with its own storage, as weight files require."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return [torch.empty_like(one) for one in tensors]
    starts = [0, *accumulate(-(-one.nbytes // LINE) * LINE for one in tensors)]
    room = mmap.mmap(-1, starts.pop(), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # on systems without large pages
        room.madvise(mmap.MADV_HUGEPAGE)
    return [
        torch.frombuffer(room, dtype=one.dtype, count=one.numel(), offset=start).view(one.shape)
        for one, start in zip(tensors, starts, strict=True)
    ]


# Time several implementations of the same computation and choose the fastest on this processor.


def fastest(ways: Sequence[Sequence[Callable[[], object]]], clock: Callable[[], float] | None = None) -> int:
    """Return the index of the way with the fastest call. A way has one call for each round; in a round, ways alternate.

    A single thread is timed by its processor time. Other work on the machine only makes calls slower, so the minimum
    of a few calls measures the way, where the median would measure the disturbance.
    """
    if clock is None:
        clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    for way in ways:
        way[0]()  # the first call of anything is slow
    seconds: list[list[float]] = [[] for _ in ways]
    for calls in zip(*ways, strict=True):
        for call, taken in zip(calls, seconds, strict=True):
            start = clock()
            call()
            taken.append(clock() - start)
    best = [min(taken) for taken in seconds]
    return best.index(min(best))


USES = 24  # of a weight for a few rows, before it is packed: more than a single short output needs
ROWS = (1, 8, 64, 512)  # ways are timed once for each range of rows, up to these; above, as for the last
TIMED_FEATURES = 1024  # of a larger matrix, only a part is timed
ROUNDS = 5
MANY = 8  # rows, for which the weights of a whole decoder are packed at once
LIKELY_ROWS = 64  # oneDNN's blocks are chosen for this many rows, but work for any number; this many count as one use

Blocks = inference.Panels | Tensor


@dataclass
class Packing:
    """State of a layer's weight: its identity, how often it was used, and its packed forms."""

    version: tuple[int, int]
    uses: int = 0
    blocks: Blocks | None = None


_packings: WeakKeyDictionary[nn.Module, dict[str, Packing]] = WeakKeyDictionary()


def has_active_hooks(module: nn.Module) -> bool:
    """Whether the module has hooks that are active in this thread, so that it must be called normally.
    Hooks for a single thread are marked."""
    if not module._forward_pre_hooks and not module._forward_hooks:
        return False
    hooks = (*module._forward_pre_hooks.values(), *module._forward_hooks.values())
    return any(getattr(hook, "thread", None) in (None, get_ident()) for hook in hooks)


def linear(
    layer: nn.Module,
    x: Float[Tensor, "N D"],
    *,
    relu: bool = False,
    out: Float[Tensor, "N E"] | None = None,
    add: bool = False,
) -> Float[Tensor, "N E"]:
    """Return `layer(x)`, or relu of it; optionally written to `out`, or added to its content."""
    if type(layer) is nn.Linear and not has_active_hooks(layer):  # a masked head has a hook
        return product(layer, x, relu=relu, out=out, add=add)
    return _write_product(layer(x), relu, out, add)


def product(
    module: nn.Module,
    x: Float[Tensor, "N D"],
    weight: str = "weight",
    bias: str = "bias",
    *,
    relu: bool = False,
    out: Float[Tensor, "N E"] | None = None,
    add: bool = False,
) -> Float[Tensor, "N E"]:
    """Do the same with one weight and bias of a module that has several."""
    blocks, b = _blocks(module, weight, x.shape[0]) if x.dtype == torch.float32 else None, getattr(module, bias)
    if isinstance(blocks, inference.Panels):
        return inference.linear(x, blocks, b, relu=relu, out=out, add=add)
    y = F.linear(x, getattr(module, weight), b) if blocks is None else _by_onednn(x, blocks, b)
    return _write_product(y, relu, out, add)


def _write_product(y: Tensor, relu: bool, out: Tensor | None, add: bool) -> Tensor:
    if relu:
        y = torch.relu_(y)
    return y if out is None else out.add_(y) if add else out.copy_(y)


def prepare_layer(layer: nn.Module, rows: int) -> Callable[..., Tensor]:
    """Return `linear` of this layer for many products of about `rows` rows; the implementation is chosen now."""
    if type(layer) is nn.Linear and not has_active_hooks(layer):
        if rows >= MANY:
            count_use(layer).uses += USES
        blocks = _blocks(layer, "weight", rows)
        if isinstance(blocks, inference.Panels):
            return partial(inference.linear, panels=blocks, bias=layer.bias)
    return partial(linear, layer)


def _blocks(module: nn.Module, name: str, rows: int) -> Blocks | None:
    """Return the packed weight, or None where the plain way is faster."""
    weight: Tensor = getattr(module, name)
    if torch.compiler.is_compiling():  # also during export, as graphs cannot use the blocks
        return None
    if torch.is_grad_enabled() or weight.device.type != "cpu" or weight.dtype != torch.float32:
        return None
    packing = count_use(module, rows, name)
    if packing.uses <= USES or not packed_is_faster(*weight.shape, _range(rows), torch.get_num_threads()):
        return None
    if packing.blocks is None:
        pack = _packer()
        packing.blocks = None if pack is None else pack(weight.detach())
    return packing.blocks


def count_use(module: nn.Module, rows: int = 1, name: str = "weight") -> Packing:
    """Count a use of the weight and return its state, which starts again if the weight was changed."""
    weight: Tensor = getattr(module, name)
    packings = _packings.setdefault(module, {})
    packing, version = packings.get(name), (weight.data_ptr(), 0 if weight.is_inference() else weight._version)
    if packing is None or packing.version != version:
        packing = packings[name] = Packing(version)
    packing.uses += max(1, rows // LIKELY_ROWS)
    return packing


@cache
def _packer() -> Callable[[Tensor], Blocks] | None:
    """Return the packing function: ours, or oneDNN's where this build of torch and this processor support it."""
    if inference.available():
        return inference.pack
    if not torch.backends.mkldnn.is_available():
        return None
    try:
        _by_onednn(torch.ones(1, 8), _for_onednn(torch.ones(8, 8)), None)
    except (RuntimeError, AttributeError):
        return None
    return _for_onednn


def _for_onednn(weight: Float[Tensor, "E D"]) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight, LIKELY_ROWS)


def _by_onednn(x: Float[Tensor, "N D"], blocks: Tensor, bias: Float[Tensor, " E"] | None) -> Float[Tensor, "N E"]:
    return torch.ops.mkldnn._linear_pointwise(x, blocks, bias, "none", [], "")


@cache
@torch.no_grad()
def packed_is_faster(features: int, width: int, rows: int, threads: int) -> bool:
    """Whether the packed way is faster; timed once for each shape, in some milliseconds."""
    pack = _packer()
    if pack is None:
        return False
    x = torch.ones(rows, width)
    matrices = torch.ones(ROUNDS, min(features, TIMED_FEATURES), width).unbind()
    product = inference.linear if pack is inference.pack else partial(_by_onednn, bias=None)
    ways = [[partial(F.linear, x, one) for one in matrices], [partial(product, x, pack(one)) for one in matrices]]
    return fastest(ways) == 1


def _range(rows: int) -> int:
    return next((most for most in ROWS if rows <= most), ROWS[-1])
