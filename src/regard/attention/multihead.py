"""Multi-head attention, with any score.

    head_h = attend(x W_q^h, m W_k^h, m W_v^h)        y = [head_1; …; head_H] W_o

Vaswani et al. 2017, section 3.2.2, arXiv:1706.03762. x gives the queries, m (the memory) keys and values; m = x in
self-attention.
Where we differ: any score may replace the scaled dot product (its weights are shared by the heads); heads
may have any width; several heads may share keys and values (`kv_heads`: Ainslie et al. 2023, section 2.2,
arXiv:2305.13245; 1 is Shazeer 2019, arXiv:1911.02150).

Caches are values: `project_memory` and `step` return a `KeyValue` to the caller, and the module keeps none.
"""

from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.memory import KeyValue, PreallocatedCache
from regard.attention.positions import Alibi, RelativeBias, Rotary
from regard.attention.score import Role, Score
from regard.attention.scores import ScaledDot
from regard.attention.trace import tracing
from regard.kernels import gradients

# Shapes of heads: split vectors, group heads, broadcast masks, and check inputs.


def split_heads(x: Float[Tensor, "B T E"], heads: int) -> Float[Tensor, "B H T d"]:
    """Split vectors of width E into `heads` vectors of width d."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def group_heads(x: Shaped[Tensor, "*B H Q N"], kv_heads: int) -> Shaped[Tensor, "*B Hkv G Q N"]:
    """Group the heads that share a key; a head dimension of 1 stays 1."""
    heads = x.shape[-3]
    return x.unflatten(-3, (kv_heads, -1) if heads > 1 else (1, 1))


def mask_for_heads(mask: Tensor, B: int, K: int) -> Bool[Tensor, "#B #H #Q K"]:
    """Broadcast a mask of shape `B K` (which keys are real), `B Q K` or `B H Q K` to the last of these."""
    if mask.dim() == 2:
        if mask.shape != (B, K):
            raise ValueError(
                f"mask has shape {tuple(mask.shape)}; with two dimensions it marks the real keys and must be "
                f"batch × keys, here {(B, K)}. Pass a mask of queries × keys as mask[None]"
            )
        return mask[:, None, None]
    if mask.dim() == 3:
        return mask[:, None]
    if mask.dim() == 4:
        return mask
    raise ValueError(f"mask has {mask.dim()} dimensions; it must be B K, B Q K or B H Q K")


def require_vectors(name: str, x: Tensor, width: int) -> None:
    """Raise a ValueError unless x is batch × length × width in floating point."""
    if x.dim() != 3 or x.shape[-1] != width:
        raise ValueError(f"{name} has shape {tuple(x.shape)}, but must be batch × length × {width}")
    if not x.is_floating_point():
        raise ValueError(f"{name} is {str(x.dtype).removeprefix('torch.')}, but attention needs floating point")


class Projections(nn.Module):
    """The weights of multi-head attention, and its projections to queries, keys and values.

        q^h = x W_q^h        k^h = m W_k^h        v^h = m W_v^h

    Keys are prepared for the score (`Score.prepare`); with rotary positions queries and keys are rotated.
    `multihead` describes the rest.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        memory_width: int | None = None,
        head_width: int | None = None,
        value_width: int | None = None,
        kv_heads: int | None = None,
        score: Score | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        rotary: Rotary | None = None,
        relative: Alibi | RelativeBias | None = None,
    ):
        """
        memory_width   of the memory if it is not x; then x does not attend to itself
        head_width     of queries and keys in each head; width / heads if not given
        value_width    of values in each head; head_width if not given
        kv_heads       number of different keys and values; heads if not given
        dropout        of the weights, in training
        rotary         rotates queries and keys by their positions
        relative       bias on the scores by distance
        """
        super().__init__()
        if heads < 1:
            raise ValueError(f"heads={heads} must be at least 1")
        if head_width is None:
            if width % heads:
                raise ValueError(f"heads={heads} must divide width={width}, unless head_width is given")
            head_width = width // heads
        kv_heads = heads if kv_heads is None else kv_heads
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"kv_heads={kv_heads} must divide heads={heads}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout={dropout} must be at least 0 and below 1")
        self.width, self.heads, self.kv_heads, self.dropout = width, heads, kv_heads, dropout
        self.memory_width = memory_width
        self.role: Role | None = None
        self.score = ScaledDot() if score is None else score
        self.rotary, self.relative = rotary, relative

        value_width = head_width if value_width is None else value_width
        queries, keys, values = self.sizes = (heads * head_width, kv_heads * head_width, kv_heads * value_width)
        # Self-attention computes queries, keys and values in one product, which is faster than three.
        if memory_width is None:
            self.project = nn.Linear(width, queries + keys + values, bias=bias)
        else:
            self.project = nn.Linear(width, queries, bias=bias)
            self.project_kv = nn.Linear(memory_width, keys + values, bias=bias)
        self.out = nn.Linear(heads * value_width, width, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize by Xavier, with the gain of torch's joint matrix for q, k and v; biases start at zero."""
        (query, query_bias), (memory, memory_bias) = self._query_part(), self._memory_part()
        for weight in (query, *memory.split(self.sizes[1:])):
            nn.init.xavier_uniform_(weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out.weight)
        for bias in (query_bias, memory_bias, self.out.bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def project_memory(self, memory: Float[Tensor, "B K M"]) -> KeyValue:
        """Return the keys and values of a memory, for repeated use."""
        require_vectors("memory", memory, self.width if self.memory_width is None else self.memory_width)
        key, value = gradients.linear(memory, *self._memory_part(), self.training).split(self.sizes[1:], dim=-1)
        return KeyValue(self.score.prepare(split_heads(key, self.kv_heads)), split_heads(value, self.kv_heads))

    def _project_all(self, x: Float[Tensor, "N T D"], start: int) -> tuple[Float[Tensor, "N H T d"], KeyValue]:
        if self.memory_width is not None:
            raise ValueError("this MultiHead was built with memory_width: pass a memory")
        require_vectors("x", x, self.width)
        query, key, value = gradients.apply(self.project, x).split(self.sizes, dim=-1)
        query, key, value = (
            split_heads(part, heads)
            for part, heads in ((query, self.heads), (key, self.kv_heads), (value, self.kv_heads))
        )
        if self.rotary is not None:
            query, key = self.rotary(query, start), self.rotary(key, start)
        return query, KeyValue(self.score.prepare(key), value)

    def _query_part(self) -> tuple[Tensor, Tensor | None]:
        """Return the weight and bias of the queries."""
        weight, bias, queries = self.project.weight, self.project.bias, self.sizes[0]
        return weight[:queries], None if bias is None else bias[:queries]

    def _memory_part(self) -> tuple[Tensor, Tensor | None]:
        """Return the weight and bias of the keys and values."""
        if self.memory_width is not None:
            return self.project_kv.weight, self.project_kv.bias
        weight, bias, queries = self.project.weight, self.project.bias, self.sizes[0]
        return weight[queries:], None if bias is None else bias[queries:]


# Multi-head attention in training, with the compiled kernels (`native`) where they apply: heads stay side by side.
#
# See `multihead` for the equation.


def training_kernel(
    part: Projections,
    x: Float[Tensor, "N Q D"],
    memory: Tensor | KeyValue | None,
    mask: Tensor | None,
    causal: bool,
) -> Float[Tensor, "N Q D"] | None:
    """Return the output, or None where the kernels do not apply."""
    if isinstance(memory, KeyValue) or not part.training or not plain(part) or part.dropout or tracing() is not None:
        return None
    if x.dim() != 3 or x.shape[-1] != part.width or (memory is None) != (part.memory_width is None):
        return None
    if memory is not None and (causal or memory.shape != (x.shape[0], memory.shape[1], part.memory_width)):
        return None
    if mask is not None and mask.shape != (x if memory is None else memory).shape[:2]:
        return None
    if not gradients.attends(x, memory, part.heads):
        return None
    first = gradients.apply(part.project, x)
    second = None if memory is None else gradients.apply(part.project_kv, memory)
    return gradients.apply(part.out, gradients.attend(first, second, part.heads, mask, causal=causal))


def plain(part: Projections) -> bool:
    """Whether this is scaled dot product with as many keys as heads and no positions inside the attention."""
    return (
        type(part.score) is ScaledDot
        and part.rotary is None
        and part.relative is None
        and part.sizes == (part.width,) * 3
    )


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
        if (quick := training_kernel(self, x, memory, mask, causal)) is not None:
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
        beams = x if B == N else x.reshape(B, N // B * x.shape[1], self.width)  # (B, R, D), R = N/B · Q
        query = split_heads(gradients.linear(beams, *self._query_part(), self.training), self.heads)  # (B, H, R, d)
        return self._attend(x, query, memory, mask, causal)

    def step(
        self, x: Float[Tensor, "N T D"], past: KeyValue | PreallocatedCache | None, mask: Tensor | None = None
    ) -> tuple[Float[Tensor, "N T D"], KeyValue | PreallocatedCache]:
        """Return causal self-attention of the next T vectors (usually one), which follow those in `past`."""
        if isinstance(past, PreallocatedCache):
            query, new = self._project_all(x, start=past.length)
            cache = past.append(new)
            return self._attend(x, query, cache.taken, mask, causal=True), cache
        query, new = self._project_all(x, start=0 if past is None else past.key.shape[-2])
        new = new if past is None else past.append(new)
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
            if weights.shape[0] < x.shape[0]:  # beams are rows of x: (B, H, n·Q, K) → (B·n, H, Q, K)
                weights = weights.unflatten(2, (-1, x.shape[1])).transpose(1, 2).flatten(0, 1)
            out = self.out.weight.T.unflatten(0, (self.heads, -1))  # (H, dv, D)
            trace.keep(self, weights, memory.value.flatten(1, 2) if grouped else memory.value, out)
        return gradients.apply(self.out, context.transpose(1, 2).reshape(*x.shape[:2], self.out.in_features))
