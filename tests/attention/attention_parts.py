"""What the tests of attention share: every score by its name, random parts, and a meter for memory."""

import weakref
from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard import catalog
from regard.attention import Score


def _of_width(name: str) -> Callable[[int], Score]:
    return lambda width: catalog.find(catalog.SCORES, name).for_widths(width, width, width + 2)


# every name of the catalogue → a score for queries and keys of one width
SCORES: dict[str, Callable[[int], Score]] = {name: _of_width(name) for name in catalog.SCORES}


def random_parts(
    seed: int, lead: tuple[int, ...], Q: int, K: int, D: int, Dv: int, dtype=torch.float32
) -> list[Tensor]:
    """Queries, keys and values that want gradients."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((Q, D), (K, D), (K, Dv))
    return [torch.randn(*lead, *s, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for s in shapes]


class PeakMemory(TorchDispatchMode):
    """Counts the bytes of tensors that operations make while this is active, and the most there were at once."""

    def __enter__(self):
        self.now = self.peak = 0
        self._known: set[int] = set()
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                place, size = storage.data_ptr(), storage.nbytes()
                if size and place not in given and place not in self._known:
                    self._known.add(place)
                    self.now += size
                    self.peak = max(self.peak, self.now)
                    weakref.finalize(storage, self._gone, place, size)
        return result

    def _gone(self, place: int, size: int) -> None:
        self._known.discard(place)
        self.now -= size
