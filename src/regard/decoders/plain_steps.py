"""Steps of a Transformer decoder with plain attention: the same numbers by fewer and cheaper operations.

A step has one vector a row, so the cost beside its matrix products decides the speed of decoding. Differences to the
general `Block.step`, on a CPU:

    products  with weights that are packed once (`layers/packed.py`)
    cache     keys and values of all layers are in one buffer with spare room. A step writes its position instead of
              copying the buffer.
    beams     of a sentence share one set of keys, and a mask selects the past of each beam. So selecting beams copies
              only masks, and one product scores all beams of a sentence with all its keys. Keys that are in no beam's
              past are dropped when the buffer is full.
    softmax   over few keys is slow if they are contiguous (eight times, for 15 keys), so the scores are transposed.

`suits` returns whether blocks support this. Other blocks, and steps with gradients, use `Block.step`.
"""

from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.memory import Memory
from regard.attention.multihead import plain
from regard.decoders.decoder import share, stack_rows
from regard.layers.packed import linear
from regard.layers.transformer import Block

ROOM = 16  # spare steps of a new buffer
FEW_KEYS = 16  # with fewer keys, softmax is faster on transposed scores
SMALL = 400  # multiplications of a group; below this, a product and a sum are faster than `bmm`


def suits(block: Block) -> bool:
    """Return whether all attentions of a block are plain (`layers/transformer.py`)."""
    return plain(block.attention) and (block.cross is None or plain(block.cross))


@dataclass(frozen=True)
class PlainState:
    """State of N = S · W rows: W beams (`copies`) of each of S sentences, with `keys` = J keys in the cache."""

    cache: Float[Tensor, "P S H room d"] | None  # P: key and value of each layer, in turn; None before the first step
    written: list[int]  # number of used keys of the buffer; shared by all states that share the buffer
    keys: int
    past: Bool[Tensor, "S W J"] | None  # whether a key is in the past of a beam; None: all are
    memory: tuple[tuple[Tensor, Tensor] | None, ...]  # per layer: keys and values of the memory, (S·H, K, d)
    hidden: Float[Tensor, "S 1 1 K"] | None  # added to the scores: 0, or very low for padding
    heads: int
    length: int | Int[Tensor, " S"]  # number of steps; for each sentence, if they started at different times
    rows: int
    copies: int
    device: torch.device
    joins = True
    weights: None = field(default=None, init=False)  # the general steps record weights

    def select(self, rows: Int[Tensor, " M"]) -> "PlainState":
        sentences, copies = share(rows, self.rows // self.copies, self.copies)
        past = None if self.past is None else self.past.flatten(0, 1).index_select(0, rows).unflatten(0, (-1, copies))
        if sentences is None:
            return replace(self, past=past, rows=len(rows), copies=copies)
        groups = (sentences.unsqueeze(1) * self.heads + torch.arange(self.heads, device=rows.device)).flatten()
        cache = None if self.cache is None else self.cache.index_select(1, sentences)
        memory = tuple(kv and (kv[0].index_select(0, groups), kv[1].index_select(0, groups)) for kv in self.memory)
        hidden = None if self.hidden is None else self.hidden.index_select(0, sentences)
        length = self.length if isinstance(self.length, int) else self.length.index_select(0, sentences)
        return replace(
            self, cache=cache, written=[self.keys], past=past, memory=memory, hidden=hidden, length=length,
            rows=len(rows), copies=copies,
        )  # fmt: skip

    def join(self, other: "PlainState") -> "PlainState":
        """Join two states after their first step. Positions without keys of a sentence are masked for it."""
        (used, past), (others, others_past) = self._alive(), other._alive()
        places = [used.shape[3], others.shape[3]]
        cache = used.new_empty(
            used.shape[0], used.shape[1] + others.shape[1], self.heads, max(places) + ROOM * self.copies, used.shape[4]
        )
        cache[:, : used.shape[1], :, : places[0]] = used
        cache[:, : used.shape[1], :, places[0] : max(places)] = 0.0
        cache[:, used.shape[1] :, :, : places[1]] = others
        cache[:, used.shape[1] :, :, places[1] : max(places)] = 0.0
        if past is not None or others_past is not None or places[0] != places[1]:
            seen = [
                torch.ones(one.shape[1], self.copies, one.shape[3], dtype=torch.bool, device=self.device)
                for one in (used, others)
            ]
            past = stack_rows(seen[0] if past is None else past, seen[1] if others_past is None else others_past, dim=2)
        memory = tuple(
            mine and theirs and (stack_rows(mine[0], theirs[0], dim=1), stack_rows(mine[1], theirs[1], dim=1))
            for mine, theirs in zip(self.memory, other.memory, strict=True)
        )
        return replace(
            self, cache=cache, written=[max(places)], keys=max(places), past=past, memory=memory,
            hidden=self._joined_hidden(other), length=torch.cat([self._lengths(), other._lengths()]),
            rows=self.rows + other.rows,
        )  # fmt: skip

    def _joined_hidden(self, other: "PlainState") -> Float[Tensor, "S 1 1 K"] | None:
        """Return the joined bias, which also masks the end of the shorter memory."""
        mine, theirs = self._memory_mask(), other._memory_mask()
        if self.hidden is None and other.hidden is None and mine.shape[3] == theirs.shape[3]:
            return None
        return stack_rows(mine, theirs, dim=3, fill=torch.finfo(mine.dtype).min / 2)

    def _memory_mask(self) -> Float[Tensor, "S 1 1 K"]:
        if self.hidden is not None:
            return self.hidden
        assert self.cache is not None
        keys = 0 if self.memory[0] is None else self.memory[0][0].shape[1]
        return self.cache.new_zeros(self.rows // self.copies, 1, 1, keys)

    def _lengths(self) -> Int[Tensor, " S"]:
        if isinstance(self.length, Tensor):
            return self.length
        return torch.full((self.rows // self.copies,), self.length, device=self.device)

    @property
    def positions(self) -> int | Int[Tensor, " N"]:
        """Return the position of the next token of each row."""
        return self.length if isinstance(self.length, int) else self.length.repeat_interleave(self.copies)

    def with_place(self, like: Float[Tensor, "N D"], parts: int) -> "PlainState":
        """Return the state with a position for the next key of each row, in a new buffer if needed."""
        cache, keys = self.cache, self.keys
        if cache is not None and self.written[0] == keys and keys + self.copies <= cache.shape[3]:
            return self
        if cache is None:
            shape = (parts, self.rows // self.copies, self.heads, 0, like.shape[1] // self.heads)
            used, past = like.new_empty(shape), None
        else:
            used, past = self._alive()
        keys = used.shape[3]
        larger = used.new_empty(*used.shape[:3], keys + ROOM * self.copies, used.shape[4])
        larger[:, :, :, :keys] = used
        return replace(self, cache=larger, written=[keys], keys=keys, past=past)

    def _alive(self) -> tuple[Float[Tensor, "P S H J d"], Bool[Tensor, "S W J"] | None]:
        """Return the keys that are in the past of any beam."""
        assert self.cache is not None
        used, past = self.cache[:, :, :, : self.keys], self.past
        if past is None:
            return used, None
        alive = past.any(1)
        keys = int(alive.sum(1).max())
        order = alive.byte().argsort(dim=1, descending=True, stable=True)[:, :keys]
        used = used.gather(3, order[None, :, None, :, None].expand(*used.shape[:3], -1, used.shape[4]))
        return used, past.gather(2, order.unsqueeze(1).expand(-1, self.copies, -1))

    def past_with_now(self) -> Bool[Tensor, "S W seen"] | None:
        """Return the mask of pasts, including the newest key of each row."""
        if self.past is None and self.copies == 1:
            return None
        shape = (self.rows // self.copies, self.copies, -1)
        past = torch.ones(1, 1, self.keys, dtype=torch.bool, device=self.device) if self.past is None else self.past
        own = torch.eye(self.copies, dtype=torch.bool, device=self.device)
        return torch.cat([past.expand(shape), own.expand(shape)], dim=2)


@torch.no_grad()
def start(blocks: list[Block], memory: Memory | None, copies: int, device: torch.device) -> PlainState:
    hidden, projected = None, []
    for block in blocks:
        if memory is None or block.cross is None:
            projected.append(None)
            continue
        key, value = block.cross.project_memory(memory.vectors)
        if memory.mask is not None:
            # A row without keys returns zeros: the scores are finite, and the values are zeros.
            value = value.masked_fill(~memory.mask[:, None, :, None], 0.0)
            hidden = _mask_bias(memory.mask[:, None, None], key.dtype) if hidden is None else hidden
        projected.append((key.flatten(0, 1), value.flatten(0, 1)))
    rows = copies if memory is None else len(memory.vectors) * copies
    if memory is None:
        copies = 1  # without a memory, rows share nothing
    return PlainState(None, [0], 0, None, tuple(projected), hidden, blocks[0].attention.heads, 0, rows, copies, device)


@torch.no_grad()
def step(blocks: list[Block], x: Float[Tensor, "N D"], state: PlainState) -> tuple[Float[Tensor, "N D"], PlainState]:
    """Run one step through all blocks; x are the embedded tokens."""
    state = state.with_place(x, 2 * len(blocks))
    cache, past, keys, seen = state.cache, state.past_with_now(), state.keys, state.keys + state.copies
    assert cache is not None
    hidden = None if past is None else _mask_bias(past.unsqueeze(1), x.dtype)
    parts = (-1, state.copies, 3, state.heads, cache.shape[4])
    for number, (block, memory) in enumerate(zip(blocks, state.memory, strict=True)):
        y = block.attention_norm(x) if block.norm_first else x
        # The beams of a sentence are queries to the same keys.
        now = linear(block.attention.project, y).view(parts).permute(2, 0, 3, 1, 4)
        cache[2 * number : 2 * number + 2, :, :, keys:seen] = now[1:]
        key, value = cache[2 * number : 2 * number + 2, :, :, :seen].flatten(1, 2)
        context = _attend(now[0], key, value, hidden)
        x = _add(block, block.attention_norm, x, linear(block.attention.out, context))
        if block.cross is not None and block.cross_norm is not None and memory is not None:
            y = block.cross_norm(x) if block.norm_first else x
            query = linear(block.cross.project, y).view(-1, *parts[1:2], *parts[3:]).transpose(1, 2)
            x = _add(block, block.cross_norm, x, linear(block.cross.out, _attend(query, *memory, state.hidden)))
        y = block.feed_forward_norm(x) if block.norm_first else x
        wide = block.feed_forward.between(linear(block.feed_forward.widen, y))
        x = _add(block, block.feed_forward_norm, x, linear(block.feed_forward.narrow, wide))
    state.written[0] = seen
    return x, replace(state, past=past, keys=seen, length=state.length + 1)


def _mask_bias(seen: Bool[Tensor, "..."], dtype: torch.dtype) -> Float[Tensor, "..."]:
    """Return the bias of the scores: 0, or very low where masked."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, torch.finfo(dtype).min / 2)


def _add(block: Block, norm: torch.nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Add in place: y is the result of a product and still in the CPU cache."""
    return y.add_(x) if block.norm_first else norm(y.add_(x))


def _attend(
    query: Float[Tensor, "S H W d"],
    key: Float[Tensor, "G K d"],
    value: Float[Tensor, "G K d"],
    hidden: Float[Tensor, "S 1 #W K"] | None,
) -> Float[Tensor, "N D"]:
    """Return softmax(q kᵀ / √d) v, for G = S · H groups of few queries and few keys."""
    S, H, W, d = query.shape
    query = query.reshape(-1, W, d) * d**-0.5
    small = W * d * key.shape[1] < SMALL
    scores = (query.unsqueeze(2) * key.unsqueeze(1)).sum(3) if small else torch.bmm(query, key.mT)
    if hidden is not None:
        scores.view(S, H, W, -1).add_(hidden)
    if scores.shape[2] < FEW_KEYS:
        weights = F.softmax(scores.permute(2, 0, 1), dim=0).permute(1, 2, 0).contiguous()
    else:
        weights = F.softmax(scores, dim=2)
    context = (weights.unsqueeze(3) * value.unsqueeze(1)).sum(2) if small else torch.bmm(weights, value)
    return context.view(S, H, W, d).transpose(1, 2).reshape(-1, H * d)
