"""The weights of multi-head attention, and its projections to queries, keys and values.

    q^h = x W_q^h        k^h = m W_k^h        v^h = m W_v^h

Keys are prepared for the score (`Score.prepare`); with rotary positions queries and keys are rotated. `multihead`
describes the rest.
"""

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.cache import KeyValue
from regard.attention.heads import require_vectors, split_heads
from regard.attention.relative import Alibi, RelativeBias
from regard.attention.role import Role
from regard.attention.rotary import Rotary
from regard.attention.scaled_dot import ScaledDot
from regard.attention.score import Score
from regard.native import gradients


class Projections(nn.Module):
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
