"""The encoder output (memory) that decoders attend to: vectors with a mask."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Memory:
    """K vectors for each batch row, a mask (True = may attend; None = all), and one summary vector.

    `summary` is the *thought vector* of sequence-to-sequence without attention: a recurrent encoder's last state, or
    the mean of the vectors for encoders that have no last state.
    """

    vectors: Float[Tensor, "B K D"]
    mask: Bool[Tensor, "B K"] | None
    summary: Float[Tensor, "B E"]
    grid: tuple[int, int] | None = None  # rows × columns, where the K vectors are regions of an image

    def select(self, rows: Tensor) -> "Memory":
        """Keep, drop, repeat or reorder batch rows."""
        mask = None if self.mask is None else self.mask[rows]
        return Memory(self.vectors[rows], mask, self.summary[rows], self.grid)


# Cached keys and values: computed once, attended to many times.
#
#     KeyValue            plain tensors: of a memory, or of the steps so far; a further step is concatenated
#     PreallocatedCache   the front of buffers that were allocated in advance; a further step is written into them
#
# Both are values: a step does not change its input. A `PreallocatedCache` shares its buffers with its predecessor,
# and detects a second step from the same predecessor, which then works on a copy.


class KeyValue(NamedTuple):
    """Keys and values of all heads, computed once for many queries. Keys have been through `score.prepare`."""

    key: Float[Tensor, "N Hkv K d"]
    value: Float[Tensor, "N Hkv K dv"]

    def select(self, rows: Int[Tensor, " M"]) -> "KeyValue":
        """Keep, drop, repeat or reorder rows."""
        return KeyValue(self.key.index_select(0, rows), self.value.index_select(0, rows))

    def append(self, new: "KeyValue") -> "KeyValue":
        return KeyValue(torch.cat([self.key, new.key], -2), torch.cat([self.value, new.value], -2))


class PreallocatedCache(NamedTuple):
    """Buffers whose first `length` positions belong to this cache, the first `written[0]` to all that share them."""

    key: Float[Tensor, "N Hkv R d"]
    value: Float[Tensor, "N Hkv R dv"]
    length: int
    written: list[int]

    @classmethod
    def empty(
        cls, like: Tensor, rows: int, heads: int, places: int, key_width: int, value_width: int
    ) -> "PreallocatedCache":
        key, value = (like.new_empty(rows, heads, places, width) for width in (key_width, value_width))
        return cls(key, value, 0, [0])

    @property
    def taken(self) -> KeyValue:
        return KeyValue(self.key[:, :, : self.length], self.value[:, :, : self.length])

    def select(self, rows: Int[Tensor, " M"]) -> "PreallocatedCache":
        """Keep, drop, repeat or reorder rows."""
        return PreallocatedCache(
            self.key.index_select(0, rows), self.value.index_select(0, rows), self.length, [self.length]
        )

    def append(self, new: KeyValue) -> "PreallocatedCache":
        stop = self.length + new.key.shape[-2]
        places, own = self.key.shape[-2], self
        if stop > places or self.written[0] != self.length:
            own = self._copy(places if stop <= places else max(stop, 2 * places))
        own.key[:, :, self.length : stop] = new.key
        own.value[:, :, self.length : stop] = new.value
        own.written[0] = stop
        return PreallocatedCache(own.key, own.value, stop, own.written)

    def _copy(self, places: int) -> "PreallocatedCache":
        rows, heads, _, width = self.key.shape
        copy = PreallocatedCache.empty(self.key, rows, heads, places, width, self.value.shape[-1])
        copy.key[:, :, : self.length] = self.taken.key
        copy.value[:, :, : self.length] = self.taken.value
        return copy
