"""Steps of a Transformer decoder by the C kernels of `kernels`: the same numbers, without copies.

    products    with packed weights; relu, bias and the residual sum are computed while the product is in registers
    cache       queries, keys and values of all steps of all rows are in one table a layer, where the product of a
                step writes them. Each row has a list of the positions of its past. Selecting, dropping or repeating
                rows changes these lists and no keys; beams share common prefixes.
    memory      keys and values of all sentences are in one table a layer, in tiles, as the kernel reads them
    joining     keys of new rows are appended

When a table is full, keys that are in no row's past are dropped. A step does not change earlier states: it writes to
positions that no other state uses.

`suits` returns whether a decoder supports this: those of `plain_steps`, on a CPU with kernels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.memory import Memory
from regard.decoders import plain_steps
from regard.kernels import inference
from regard.layers import packed
from regard.layers.transformer import Block

STEPS = 32  # spare steps of a new table; fewer, down to 4, if they need more than
ROOM = 64 * 2**20  # bytes
Places = Int[Tensor, "..."]  # int32


@dataclass(frozen=True)
class KeyValueTable:
    """Vectors of all layers at numbered positions. Positions up to `taken` are in use and never overwritten."""

    rows: Float[Tensor, "L room E"]
    taken: list[int]  # one number, shared by all states that share the table

    @classmethod
    def of(cls, rows: Float[Tensor, "L P E"], spare: int = 0) -> "KeyValueTable":
        """Return a table with these rows and room for more."""
        layers, count, width = rows.shape
        if not spare:
            return cls(rows, [count])
        table = rows.new_empty(layers, count + spare, width)
        table[:, :count] = rows
        return cls(table, [count])

    def room(self) -> int:
        return self.rows.shape[1] - self.taken[0]

    def take(self, count: int) -> int:
        """Reserve `count` positions for the caller, and return the first."""
        first = self.taken[0]
        self.taken[0] += count
        return first


class DecoderLayerSteps(NamedTuple):
    """The parts of one block that a step uses, looked up once: calls of modules cost as much as small products."""

    heads: int
    norm_first: bool
    attention_norm: Callable[[Tensor], Tensor]
    project: Callable[..., Tensor]
    out: Callable[..., Tensor]
    cross_norm: Callable[[Tensor], Tensor] | None
    cross_project: Callable[..., Tensor] | None
    cross_out: Callable[..., Tensor] | None
    feed_forward_norm: Callable[[Tensor], Tensor]
    widen: Callable[..., Tensor]
    between: Callable[[Tensor], Tensor] | None  # None: relu, computed by the product
    narrow: Callable[..., Tensor]

    @classmethod
    def of(cls, block: Block, rows: int) -> "DecoderLayerSteps":
        attention, cross, wide = block.attention, block.cross, block.feed_forward
        return cls(
            heads=attention.heads,
            norm_first=block.norm_first,
            attention_norm=inference.prepare_norm(block.attention_norm),
            project=packed.prepare_layer(attention.project, rows),
            out=packed.prepare_layer(attention.out, rows),
            cross_norm=None if block.cross_norm is None else inference.prepare_norm(block.cross_norm),
            cross_project=None if cross is None else packed.prepare_layer(cross.project, rows),
            cross_out=None if cross is None else packed.prepare_layer(cross.out, rows),
            feed_forward_norm=inference.prepare_norm(block.feed_forward_norm),
            widen=packed.prepare_layer(wide.widen, rows),
            between=None if wide.is_relu else wide.between,
            narrow=packed.prepare_layer(wide.narrow, rows),
        )


@dataclass(frozen=True)
class NativeState:
    """State of N rows, each with the positions of its past and of the keys of its sentence's memory."""

    layers: tuple[DecoderLayerSteps, ...]
    past: KeyValueTable  # query, key and value of each step
    places: Int[Tensor, "N T"]
    steps: Int[Tensor, " N"]  # number of steps of each row
    length: int | None  # the same number, if equal for all rows
    memory: KeyValueTable | None  # tiles of keys and values
    first: Int[Tensor, " N"]  # first tile of the memory of each row
    keys: Int[Tensor, " N"]  # number of its keys in the memory
    joins = True
    weights: None = field(default=None, init=False)  # the general steps record weights

    @property
    def rows(self) -> int:
        return len(self.steps)

    @property
    def device(self) -> torch.device:
        return self.steps.device

    @property
    def positions(self) -> int | Int[Tensor, " N"]:
        """Return the position of the next token of each row."""
        return self.steps.long() if self.length is None else self.length

    def select(self, rows: Int[Tensor, " M"]) -> "NativeState":
        parts = (part.index_select(0, rows) for part in (self.places, self.steps, self.first, self.keys))
        places, steps, first, keys = parts
        return replace(self, places=places, steps=steps, first=first, keys=keys)

    def join(self, other: "NativeState") -> "NativeState":
        past, places = _with_room(self.past, self.places, self.steps, int(other.steps.sum()))
        mine, their_places = _alive(other.places, other.steps)
        begin = past.take(len(mine))
        past.rows[:, begin : begin + len(mine)] = other.past.rows.index_select(1, mine)
        memory, first = self.memory, self.first
        if memory is not None and other.memory is not None:
            listed, their_first = _memory_places(other.first, other.keys)
            memory, first = _memory_with_room(memory, first, self.keys, len(listed))
            at = memory.take(len(listed))
            memory.rows[:, at : at + len(listed)] = other.memory.rows.index_select(1, listed)
            first = torch.cat([first, their_first + at])
        else:
            first = torch.cat([first, other.first])
        width = max(places.shape[1], their_places.shape[1])
        return replace(
            self,
            past=past,
            places=torch.cat([_widen(places, width), _widen(their_places + begin, width)]),
            steps=torch.cat([self.steps, other.steps]),
            length=self.length if self.length == other.length else None,
            memory=memory,
            first=first,
            keys=torch.cat([self.keys, other.keys]),
        )


def suits(blocks: Sequence[Block]) -> bool:
    return inference.available(*(block.attention.out.weight for block in blocks)) and all(
        map(plain_steps.suits, blocks)
    )


@torch.no_grad()
def start(blocks: Sequence[Block], memory: Memory | None, copies: int) -> NativeState:
    width, table = blocks[0].width, None
    rows = copies if memory is None else len(memory.vectors) * copies
    keys = first = torch.zeros(rows, dtype=torch.int32)
    if memory is not None and blocks[0].cross is not None:
        vectors, mask = memory.vectors, memory.mask
        there = vectors.flatten(0, 1) if mask is None else vectors[mask]
        keys = (torch.full((len(vectors),), vectors.shape[1]) if mask is None else mask.sum(1)).int()
        tiles = inference.tiles_for(keys)
        table = KeyValueTable.of(torch.empty(len(blocks), int(tiles.sum()), 2 * inference.lanes() * width))
        for block, part in zip(blocks, table.rows, strict=True):
            assert block.cross is not None
            key, value = packed.linear(block.cross.project_kv, there).split(width, 1)
            inference.tiles_of(key, value, keys, out=part)
        first = (tiles.cumsum(0) - tiles).int()
        keys, first = (part.repeat_interleave(copies) for part in (keys, first))
    past = KeyValueTable.of(torch.empty(len(blocks), 0, 3 * width), spare=_spare(rows, len(blocks) * 3 * width))
    places, steps = torch.empty(rows, 0, dtype=torch.int32), torch.zeros(rows, dtype=torch.int32)
    layers = tuple(DecoderLayerSteps.of(block, rows) for block in blocks)
    return NativeState(layers, past, places, steps, 0, table, first, keys)


@torch.no_grad()
def step(x: Float[Tensor, "N D"], state: NativeState) -> tuple[Float[Tensor, "N D"], NativeState]:
    """Run one step through all blocks; x are the embedded tokens and are overwritten."""
    rows, width = x.shape
    past, places = _with_room(state.past, state.places, state.steps, rows)
    begin = past.take(rows)
    places, steps = _and_now(places, state, begin), state.steps + 1
    for number, layer in enumerate(state.layers):
        table, first = past.rows[number], layer.norm_first
        y = layer.attention_norm(x) if first else x
        now = layer.project(y, out=table[begin : begin + rows])
        key, value = table[:, width : 2 * width], table[:, 2 * width :]
        context = inference.attend_places(now[:, :width], key, value, layer.heads, places, steps)
        x = layer.out(context, out=x, add=True)
        x = x if first else layer.attention_norm(x)
        if layer.cross_norm and layer.cross_project and layer.cross_out and state.memory is not None:
            query = layer.cross_project(layer.cross_norm(x) if first else x)
            context = inference.attend_tiles(query, state.memory.rows[number], layer.heads, state.first, state.keys)
            x = layer.cross_out(context, out=x, add=True)
            x = x if first else layer.cross_norm(x)
        y = layer.feed_forward_norm(x) if first else x
        wide = layer.widen(y, relu=True) if layer.between is None else layer.between(layer.widen(y))
        x = layer.narrow(wide, out=x, add=True)
        x = x if first else layer.feed_forward_norm(x)
    length = None if state.length is None else state.length + 1
    return x, replace(state, past=past, places=places, steps=steps, length=length)


def _and_now(places: Int[Tensor, "N T"], state: NativeState, begin: int) -> Int[Tensor, "N U"]:
    """Append the positions that this step writes to: `begin` + n for row n."""
    now = torch.arange(begin, begin + len(places), dtype=torch.int32).unsqueeze(1)
    if state.length is not None:
        return torch.cat([places, now], dim=1)
    places = _widen(places, max(places.shape[1], int(state.steps.max()) + 1))
    return places.scatter(1, state.steps.long().unsqueeze(1), now)


def _widen(places: Int[Tensor, "N T"], width: int) -> Int[Tensor, "N U"]:
    return nn.functional.pad(places, (0, width - places.shape[1]))


def _with_room(
    table: KeyValueTable, places: Int[Tensor, "N T"], steps: Int[Tensor, " N"], more: int
) -> tuple[KeyValueTable, Int[Tensor, "N T"]]:
    """Return a table with room for more vectors, and the places of each row's past in it."""
    if table.room() >= more:
        return table, places
    mine, places = _alive(places, steps)
    spare = max(more, _spare(len(steps), table.rows.shape[0] * table.rows.shape[2]))
    return KeyValueTable.of(table.rows.index_select(1, mine), spare=spare), places


def _spare(rows: int, numbers: int) -> int:
    """Return the number of spare places for future steps of `rows` rows with `numbers` numbers a place."""
    return rows * min(STEPS, max(4, ROOM // (4 * numbers * max(1, rows))))


def _alive(places: Int[Tensor, "N T"], steps: Int[Tensor, " N"]) -> tuple[Int[Tensor, " P"], Int[Tensor, "N T"]]:
    """Return the places in the past of any row, and the index of each of `places` among them."""
    real = torch.arange(places.shape[1]) < steps.unsqueeze(1)
    mine, number = torch.unique(places[real], return_inverse=True)
    return mine, torch.zeros_like(places).masked_scatter_(real, number.int())


def _memory_places(first: Int[Tensor, " N"], keys: Int[Tensor, " N"]) -> tuple[Int[Tensor, " P"], Int[Tensor, " N"]]:
    """Return the tiles of all sentences, each sentence once, and the first tile of each row in this list."""
    begins, number = torch.unique(first, return_inverse=True)
    counts = torch.zeros_like(begins).scatter_(0, number, inference.tiles_for(keys))
    listed = torch.cat([torch.arange(a, a + n) for a, n in zip(begins.tolist(), counts.tolist(), strict=True)])
    return listed, (counts.cumsum(0) - counts).int()[number]


def _memory_with_room(
    table: KeyValueTable, first: Int[Tensor, " N"], keys: Int[Tensor, " N"], more: int
) -> tuple[KeyValueTable, Int[Tensor, " N"]]:
    if table.room() >= more:
        return table, first
    listed, first = _memory_places(first, keys)
    return KeyValueTable.of(table.rows.index_select(1, listed), spare=more + len(listed)), first
