"""Multi-head attention, with any score.

    head_h = attend(x W_q^h, m W_k^h, m W_v^h)        y = [head_1; …; head_H] W_o

Vaswani et al. 2017, section 3.2.2, arXiv:1706.03762. x gives the queries, m (the memory) keys and values; m = x in
self-attention.
Where we differ: any score may replace the scaled dot product (its weights are shared by the heads); heads
may have any width; several heads may share keys and values (`kv_heads`: Ainslie et al. 2023, section 2.2,
arXiv:2305.13245; 1 is Shazeer 2019, arXiv:1911.02150).

Caches are values: `project_memory` and `step` return a `KeyValue` to the caller, and the module keeps none.
"""

from jaxtyping import Float
from torch import Tensor

from regard.attention.attend import attend
from regard.attention.cache import KeyValue, PreallocatedCache
from regard.attention.heads import group_heads, mask_for_heads, require_vectors, split_heads
from regard.attention.projections import Projections
from regard.attention.trace import tracing
from regard.attention.trained import trained
from regard.native import gradients


class MultiHead(Projections):
    """Built with the arguments of `Projections`, which holds the weights."""

    def forward(
        self,
        x: Float[Tensor, "*n Q D"],
        memory: Float[Tensor, "*m K M"] | KeyValue | None = None,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
    ) -> Float[Tensor, "*n Q D"]:
        """Attend to the memory, or to x itself without one.

        mask    True = may attend: `B K` (which keys are real), `B Q K` or `B H Q K`, where B, H and Q may be 1
        causal  no query sees a later key. Padding at the end then needs no mask: no real query sees it

        If the memory is a `KeyValue` of B rows and x has B·n rows, rows b·n … b·n + n − 1 of x attend to row b of the
        memory: the beams of a sentence share its memory, which is not copied.
        """
        if (quick := trained(self, x, memory, mask, causal)) is not None:
            return quick
        if memory is None:
            query, new = self._project_all(x, start=0)
            return self._attend(x, query, new, mask, causal)
        if self.rotary is not None or self.relative is not None:
            raise ValueError("rotary and relative positions are for self-attention, but there is a memory")
        if not isinstance(memory, KeyValue):
            memory = self.project_memory(memory)
        require_vectors("x", x, self.width)
        B, N = memory.key.shape[0], x.shape[0]  # len() would be a constant to torch.export
        if B != N and (B == 0 or N % B or causal):
            raise ValueError(f"x has {N} rows and the memory {B}; they must be equal, or (if not causal) a multiple")
        beams = x if B == N else x.reshape(B, N // B * x.shape[1], self.width)
        query = split_heads(gradients.linear(beams, *self._query_part(), self.training), self.heads)  # (B, H, R, d)
        return self._attend(x, query, memory, mask, causal)

    def step(
        self, x: Float[Tensor, "N T D"], past: KeyValue | PreallocatedCache | None, mask: Tensor | None = None
    ) -> tuple[Float[Tensor, "N T D"], KeyValue | PreallocatedCache]:
        """Return causal self-attention of the next T vectors (usually one), which follow those in `past`."""
        if isinstance(past, PreallocatedCache):
            query, new = self._project_all(x, start=past.length)
            cache = past.and_then(new)
            return self._attend(x, query, cache.taken, mask, causal=True), cache
        query, new = self._project_all(x, start=0 if past is None else past.key.shape[-2])
        new = new if past is None else past.and_then(new)
        return self._attend(x, query, new, mask, causal=True), new

    def preallocate(self, like: Tensor, rows: int, places: int) -> PreallocatedCache:
        """Return buffers for the keys and values of `rows` texts of up to `places` steps, with the dtype of `like`."""
        _, keys, values = self.sizes
        return PreallocatedCache.empty(
            like, rows, self.kv_heads, places, keys // self.kv_heads, values // self.kv_heads
        )

    def _attend(
        self,
        x: Float[Tensor, "N Q D"],
        query: Float[Tensor, "B H R d"],
        memory: KeyValue,
        mask: Tensor | None,
        causal: bool,
    ) -> Float[Tensor, "N Q D"]:
        """Attend with R queries for each row of the memory: Q, or Q for each of its beams."""
        bias = None if self.relative is None else self.relative(query.shape[-2], memory.key.shape[-2])
        mask = None if mask is None else mask_for_heads(mask, query.shape[0], memory.key.shape[-2])
        grouped = self.kv_heads < self.heads
        if grouped:  # (B, Hkv, G, Q, d) and (B, Hkv, 1, K, d): `attend` shares keys without copying them
            query = group_heads(query, self.kv_heads)
            mask = None if mask is None else group_heads(mask, self.kv_heads)
            bias = None if bias is None else group_heads(bias, self.kv_heads)
            memory = KeyValue(memory.key.unsqueeze(2), memory.value.unsqueeze(2))
        trace = tracing()
        context, weights = attend(
            self.score, query, *memory, mask, bias=bias, causal=causal, dropout=self.dropout if self.training else 0.0,
            need_weights=trace is not None, prepared=True, check_finite=not self.training,
        )  # fmt: skip
        if grouped:
            context = context.flatten(1, 2)  # (B, H, R, dv)
        if trace is not None and weights is not None:
            weights = weights.flatten(1, 2) if grouped else weights
            if weights.shape[0] < x.shape[0]:  # beams are rows of x and of the traced weights: B H n·Q K → B·n H Q K
                weights = weights.unflatten(2, (-1, x.shape[1])).transpose(1, 2).flatten(0, 1)
            out = self.out.weight.T.unflatten(0, (self.heads, -1))  # (H, dv, D)
            trace.keep(self, weights, memory.value.flatten(1, 2) if grouped else memory.value, out)
        return gradients.apply(self.out, context.transpose(1, 2).reshape(*x.shape[:2], self.out.in_features))
