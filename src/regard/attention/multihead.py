"""Multi-head attention, with any score.

    head_h = attend(x W_q^h, m W_k^h, m W_v^h)        y = [head_1; …; head_H] W_o

Vaswani et al. 2017, section 3.2.2, arXiv:1706.03762. x asks and m, the memory, answers; self-attention is m = x.
Where we differ: any score may take the place of the scaled dot product (its weights are shared by the heads); heads
may have any width; several heads may share keys and values (`kv_heads`: Ainslie et al. 2023, section 2.2,
arXiv:2305.13245; 1 is Shazeer 2019, arXiv:1911.02150).

Caches are values: `project_memory` and `step` give a `KeyValue` to the caller, and nothing stays on the module.
"""

from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.attend import attend
from regard.attention.cache import KeyValue, PreallocatedCache
from regard.attention.relative import Alibi, RelativeBias
from regard.attention.role import Role
from regard.attention.rotary import Rotary
from regard.attention.scaled_dot import ScaledDot
from regard.attention.score import Score
from regard.attention.trace import tracing


class MultiHead(nn.Module):
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
        memory_width   of the memory, where that is something else than x; then x does not attend to itself
        head_width     of queries and keys in each head; width / heads if not given
        value_width    of values in each head; head_width if not given
        kv_heads       number of different keys and values; heads if not given
        dropout        of the weights, in training
        rotary         turns queries and keys by their positions
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
        # Queries, keys and values of self-attention come from one product, which is faster than three.
        if memory_width is None:
            self.project = nn.Linear(width, queries + keys + values, bias=bias)
        else:
            self.project = nn.Linear(width, queries, bias=bias)
            self.project_kv = nn.Linear(memory_width, keys + values, bias=bias)
        self.out = nn.Linear(heads * value_width, width, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier, with the gain that torch's joint matrix for q, k and v comes to; biases start at zero."""
        (query, query_bias), (memory, memory_bias) = self._query_part(), self._memory_part()
        for weight in (query, *memory.split(self.sizes[1:])):
            nn.init.xavier_uniform_(weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out.weight)
        for bias in (query_bias, memory_bias, self.out.bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def forward(
        self,
        x: Float[Tensor, "*n Q D"],
        memory: Float[Tensor, "*m K M"] | KeyValue | None = None,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
    ) -> Float[Tensor, "*n Q D"]:
        """Attend to the memory, or to x itself if there is none.

        mask    True = may attend: `B K` (which keys are real), `B Q K` or `B H Q K`, where B, H and Q may be 1
        causal  no query sees a later key. Padding at the end then needs no mask: no real query sees it

        If the memory is a `KeyValue` of B rows and x has B·n rows, rows b·n … b·n + n − 1 of x attend to row b of the
        memory: the beams of a sentence share its memory, which is not copied.
        """
        if memory is None:
            query, new = self._project_all(x, start=0)
            return self._attend(x, query, new, mask, causal)
        if self.rotary is not None or self.relative is not None:
            raise ValueError("rotary and relative positions are for self-attention, but there is a memory")
        if not isinstance(memory, KeyValue):
            memory = self.project_memory(memory)
        self._require_width("x", x, self.width)
        B, N = len(memory.key), len(x)
        if B != N and (B == 0 or N % B or causal):
            raise ValueError(f"x has {N} rows and the memory {B}; they must be equal, or (if not causal) a multiple")
        beams = x if B == N else x.reshape(B, N // B * x.shape[1], self.width)
        query = self._split(F.linear(beams, *self._query_part()), self.heads)
        return self._attend(x, query, memory, mask, causal)

    def project_memory(self, memory: Float[Tensor, "B K M"]) -> KeyValue:
        """Keys and values of a memory that will be attended to again and again."""
        self._require_width("memory", memory, self.width if self.memory_width is None else self.memory_width)
        key, value = F.linear(memory, *self._memory_part()).split(self.sizes[1:], dim=-1)
        return KeyValue(self.score.prepare(self._split(key, self.kv_heads)), self._split(value, self.kv_heads))

    def step(
        self, x: Float[Tensor, "N T D"], past: KeyValue | PreallocatedCache | None, mask: Tensor | None = None
    ) -> tuple[Float[Tensor, "N T D"], KeyValue | PreallocatedCache]:
        """Causal self-attention for the next T vectors (usually one), after those that the past holds."""
        if isinstance(past, PreallocatedCache):
            query, new = self._project_all(x, start=past.length)
            cache = past.and_then(new)
            return self._attend(x, query, cache.taken, mask, causal=True), cache
        query, new = self._project_all(x, start=0 if past is None else past.key.shape[-2])
        new = new if past is None else past.and_then(new)
        return self._attend(x, query, new, mask, causal=True), new

    def preallocate(self, rows: int, places: int) -> PreallocatedCache:
        """Buffers for the keys and values of `rows` texts of up to `places` steps."""
        _, keys, values = self.sizes
        return PreallocatedCache.empty(
            self.project.weight, rows, self.kv_heads, places, keys // self.kv_heads, values // self.kv_heads
        )

    def _project_all(self, x: Float[Tensor, "N T D"], start: int) -> tuple[Float[Tensor, "N H T d"], KeyValue]:
        if self.memory_width is not None:
            raise ValueError("this MultiHead was built with memory_width, to attend to a memory: give it one")
        self._require_width("x", x, self.width)
        query, key, value = self.project(x).split(self.sizes, dim=-1)
        query, key, value = (
            self._split(part, heads)
            for part, heads in ((query, self.heads), (key, self.kv_heads), (value, self.kv_heads))
        )
        if self.rotary is not None:
            query, key = self.rotary(query, start), self.rotary(key, start)
        return query, KeyValue(self.score.prepare(key), value)

    def _attend(
        self,
        x: Float[Tensor, "N Q D"],
        query: Float[Tensor, "B H R d"],
        memory: KeyValue,
        mask: Tensor | None,
        causal: bool,
    ) -> Float[Tensor, "N Q D"]:
        """R queries a row of the memory: Q, or Q for each of its beams."""
        bias = None if self.relative is None else self.relative(query.shape[-2], memory.key.shape[-2])
        mask = None if mask is None else self._with_heads(mask, query.shape[0], memory.key.shape[-2])
        grouped = self.kv_heads < self.heads
        if grouped:  # B Hkv G Q d against B Hkv 1 K d: `attend` shares keys without copying them
            query = self._group(query)
            mask = None if mask is None else self._group(mask)
            bias = None if bias is None else self._group(bias)
            memory = KeyValue(memory.key.unsqueeze(2), memory.value.unsqueeze(2))
        trace = tracing()
        context, weights = attend(
            self.score, query, *memory, mask, bias=bias, causal=causal, dropout=self.dropout if self.training else 0.0,
            need_weights=trace is not None, prepared=True, check_finite=not self.training,
        )  # fmt: skip
        if grouped:
            context = context.flatten(1, 2)
        if trace is not None and weights is not None:
            weights = weights.flatten(1, 2) if grouped else weights
            if len(weights) < len(x):  # beams are rows of x, and become rows of the picture: B H n·Q K → B·n H Q K
                weights = weights.unflatten(2, (-1, x.shape[1])).transpose(1, 2).flatten(0, 1)
            trace.keep(self, weights)
        return self.out(context.transpose(1, 2).reshape(*x.shape[:2], self.out.in_features))

    def _query_part(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias that make queries."""
        weight, bias, queries = self.project.weight, self.project.bias, self.sizes[0]
        return weight[:queries], None if bias is None else bias[:queries]

    def _memory_part(self) -> tuple[Tensor, Tensor | None]:
        """Weight and bias that make keys and values."""
        if self.memory_width is not None:
            return self.project_kv.weight, self.project_kv.bias
        weight, bias, queries = self.project.weight, self.project.bias, self.sizes[0]
        return weight[queries:], None if bias is None else bias[queries:]

    @staticmethod
    def _split(x: Float[Tensor, "B T E"], heads: int) -> Float[Tensor, "B H T d"]:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    def _group(self, x: Shaped[Tensor, "*B H Q N"]) -> Shaped[Tensor, "*B Hkv G Q N"]:
        heads = x.shape[-3]
        return x.unflatten(-3, (self.kv_heads, -1) if heads > 1 else (1, 1))

    @staticmethod
    def _with_heads(mask: Tensor, B: int, K: int) -> Bool[Tensor, "#B #H #Q K"]:
        if mask.dim() == 2:
            if mask.shape != (B, K):
                raise ValueError(
                    f"mask has shape {tuple(mask.shape)}; with two dimensions it says which keys are real and must be "
                    f"batch × keys, here {(B, K)}. A mask of queries × keys is given as mask[None]"
                )
            return mask[:, None, None]
        if mask.dim() == 3:
            return mask[:, None]
        if mask.dim() == 4:
            return mask
        raise ValueError(f"mask has {mask.dim()} dimensions; it must be B K, B Q K or B H Q K")

    def _require_width(self, name: str, x: Tensor, width: int) -> None:
        if x.dim() != 3 or x.shape[-1] != width:
            raise ValueError(f"{name} has shape {tuple(x.shape)}, but must be batch × length × {width}")
        if not x.is_floating_point():
            raise ValueError(f"{name} is {str(x.dtype).removeprefix('torch.')}, but attention needs floating point")
