"""Scores: how well a query matches a key. One class each, with its equation."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.masks import leading_shape
from regard.attention.score import (
    DotForm,
    Score,
    TanhForm,
    at_least_float32,
    require_equal_widths,
    require_same_width,
    require_width,
)


class Dot(Score):
    """Dot product.

        e = q kᵀ

    Luong, Pham, Manning 2015, "Effective Approaches to Attention-based Neural Machine Translation", section 3.1
    (`dot`), arXiv:1508.04025. It has no weights; queries and keys must have the same width. For large widths its
    softmax saturates: the variance of e grows with the width. See `scaled_dot`.
    """

    equation = "e = q kᵀ"

    def forward(self, query: Float[Tensor, "*#b Q D"], key: Float[Tensor, "*#b K D"]) -> Float[Tensor, "*b Q K"]:
        return query @ key.mT

    def to_normal_form(self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K Dk"]) -> DotForm:
        require_same_width(query, prepared, self)
        return DotForm(query, prepared, scale=1.0)


class ScaledDot(Score):
    """Scaled dot product.

        e = q kᵀ / √d

    Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1, arXiv:1706.03762. If the entries of q and k are
    independent with variance 1, q·k has variance d; the root takes it back to 1, where the softmax still has a
    gradient.
    """

    equation = "e = q kᵀ / √d"

    def forward(self, query: Float[Tensor, "*#b Q D"], key: Float[Tensor, "*#b K D"]) -> Float[Tensor, "*b Q K"]:
        return query @ key.mT / math.sqrt(query.shape[-1])

    def to_normal_form(self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K Dk"]) -> DotForm:
        require_same_width(query, prepared, self)
        return DotForm(query, prepared, scale=1 / math.sqrt(query.shape[-1]))

    def numbers(self, form: DotForm | TanhForm) -> str:
        width = form.query.shape[-1]
        return f"{form.terms().sum().item() * math.sqrt(width):.4g} / √{width}"


class Bilinear(Score):
    """Bilinear, also called multiplicative or general.

        e = q W kᵀ

    Luong, Pham, Manning 2015, section 3.1 (`general`), arXiv:1508.04025. W maps keys to the space of queries, so
    that the two may have different widths. With W = W_q W_kᵀ it is the dot product of two projections. The paper
    does not scale; nor do we.
    """

    equation = "e = q W kᵀ"

    def __init__(self, query_width: int, key_width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(query_width, key_width))
        nn.init.xavier_uniform_(self.weight)

    @classmethod
    def for_widths(cls, query_width: int, key_width: int, hidden: int) -> "Bilinear":
        return cls(query_width, key_width)

    def forward(self, query: Float[Tensor, "*#b Q Dq"], key: Float[Tensor, "*#b K Dk"]) -> Float[Tensor, "*b Q K"]:
        return query @ self.weight @ key.mT

    def prepare(self, key: Float[Tensor, "*b K Dk"]) -> Float[Tensor, "*b K Dq"]:
        require_width("key", key, self.weight.shape[1], self)
        return key @ self.weight.mT

    def to_normal_form(self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K Dp"]) -> DotForm:
        require_width("query", query, self.weight.shape[0], self)
        require_width("prepared key", prepared, self.weight.shape[0], self)
        return DotForm(query, prepared, scale=1.0)


class Additive(Score):
    """Additive: a network with one hidden layer.

        e = w₂ᵀ tanh(W_q q + W_k k)

    Bahdanau, Cho, Bengio 2015, "Neural Machine Translation by Jointly Learning to Align and Translate", section 3.1
    and appendix A.1.2, arXiv:1409.0473. As there, no bias. W_k k is computed once for all queries (`prepare`). The
    table of Q×K×hidden numbers that the equation suggests is never kept: see `streaming`.
    """

    equation = "e = w₂ᵀ tanh(W_q q + W_k k)"

    def __init__(self, query_width: int, key_width: int, hidden: int):
        super().__init__()
        self.query = nn.Linear(query_width, hidden, bias=False)
        self.key = nn.Linear(key_width, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden))
        nn.init.uniform_(self.weight, -(hidden**-0.5), hidden**-0.5)

    @classmethod
    def for_widths(cls, query_width: int, key_width: int, hidden: int) -> "Additive":
        return cls(query_width, key_width, hidden)

    def forward(self, query: Float[Tensor, "*#b Q Dq"], key: Float[Tensor, "*#b K Dk"]) -> Float[Tensor, "*b Q K"]:
        return torch.tanh(self.query(query).unsqueeze(-2) + self.key(key).unsqueeze(-3)) @ self.weight

    def prepare(self, key: Float[Tensor, "*b K Dk"]) -> Float[Tensor, "*b K hidden"]:
        require_width("key", key, self.key.in_features, self)
        return self.key(key)

    def to_normal_form(self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K hidden"]) -> TanhForm:
        require_width("query", query, self.query.in_features, self)
        require_width("prepared key", prepared, self.key.out_features, self)
        return TanhForm(self.query(query), prepared, self.weight)


class Concat(Score):
    """Concatenation.

        e = w₂ᵀ tanh(W₁ [q; k])

    Luong, Pham, Manning 2015, section 3.1 (`concat`), arXiv:1508.04025. Query and key, concatenated, through one
    hidden layer. Splitting W₁ = [W_q W_k] shows that it is `additive` in one matrix, W₁[q; k] = W_q q + W_k k, and
    that is how it is computed: the Q×K pairs are never concatenated except in `forward`, which follows the
    equation.
    """

    equation = "e = w₂ᵀ tanh(W₁ [q; k])"

    def __init__(self, query_width: int, key_width: int, hidden: int):
        super().__init__()
        self.widths = (query_width, key_width)
        self.hidden = nn.Linear(query_width + key_width, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden))
        nn.init.uniform_(self.weight, -(hidden**-0.5), hidden**-0.5)

    @classmethod
    def for_widths(cls, query_width: int, key_width: int, hidden: int) -> "Concat":
        return cls(query_width, key_width, hidden)

    def forward(self, query: Float[Tensor, "*#b Q Dq"], key: Float[Tensor, "*#b K Dk"]) -> Float[Tensor, "*b Q K"]:
        lead = leading_shape(query, key)
        pairs = (*lead, query.shape[-2], key.shape[-2], -1)
        both = torch.cat([query.unsqueeze(-2).expand(pairs), key.unsqueeze(-3).expand(pairs)], dim=-1)
        return torch.tanh(self.hidden(both)) @ self.weight

    def prepare(self, key: Float[Tensor, "*b K Dk"]) -> Float[Tensor, "*b K hidden"]:
        require_width("key", key, self.widths[1], self)
        return F.linear(key, self.hidden.weight[:, self.widths[0] :])

    def to_normal_form(self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K hidden"]) -> TanhForm:
        require_width("query", query, self.widths[0], self)
        require_width("prepared key", prepared, self.hidden.out_features, self)
        return TanhForm(F.linear(query, self.hidden.weight[:, : self.widths[0]]), prepared, self.weight)


class Cosine(Score):
    """Cosine with a temperature.

        e = cos(q, k) / τ

    Graves, Wayne, Danihelka 2014, "Neural Turing Machines", section 3.3.1, arXiv:1410.5401, where 1/τ is the key
    strength β. Only directions count, and scores stay within ±1/τ however large the vectors are. τ is learned, as
    its logarithm so that it stays positive. A vector of length zero has no direction; its score is 0.
    """

    equation = "e = cos(q, k) / τ"

    def __init__(self, temperature: float = 0.1):
        super().__init__()
        if not temperature > 0:
            raise ValueError(f"temperature={temperature} must be positive")
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)))

    def forward(self, query: Float[Tensor, "*#b Q D"], key: Float[Tensor, "*#b K D"]) -> Float[Tensor, "*b Q K"]:
        return self._direction(query) @ self._direction(key).mT / self.log_temperature.exp()

    def prepare(self, key: Float[Tensor, "*b K D"]) -> Float[Tensor, "*b K D"]:
        return self._direction(key)

    def to_normal_form(self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K Dk"]) -> DotForm:
        require_same_width(query, prepared, self)
        return DotForm(self._direction(query) / self.log_temperature.exp(), prepared, scale=1.0)

    def numbers(self, form: DotForm | TanhForm) -> str:
        temperature = self.log_temperature.exp().item()
        return f"{form.terms().sum().item() * temperature:.4g} / {temperature:.4g}"

    @staticmethod
    def _direction(x: Float[Tensor, "*b N D"]) -> Float[Tensor, "*b N D"]:
        """x / |x|. The length is taken in float32, for in float16 its square overflows at |x| = 256."""
        length = torch.linalg.vector_norm(at_least_float32(x), dim=-1, keepdim=True)
        return (x / length.clamp(min=1e-6)).to(x.dtype)


class Trilinear(Score):
    """Trilinear: a weight for the query, one for the key, and one for their product.

        e = w_qᵀ q + w_kᵀ k + wᵀ (q ∘ k)

    Seo et al. 2016, "Bidirectional Attention Flow", equation 1, arXiv:1611.01603, where it is written wᵀ[q; k; q ∘
    k]. Both must have one width. Written out it is a dot product of longer vectors, e = [w ∘ q; w_qᵀ q; 1] · [k; 1;
    w_kᵀ k], so that nothing of size Q×K×D is ever made.
    """

    equation = "e = w_qᵀ q + w_kᵀ k + wᵀ (q ∘ k)"

    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Parameter(torch.empty(width))
        self.key = nn.Parameter(torch.empty(width))
        self.both = nn.Parameter(torch.empty(width))
        for weight in (self.query, self.key, self.both):
            nn.init.normal_(weight, std=width**-0.5)

    @classmethod
    def for_widths(cls, query_width: int, key_width: int, hidden: int) -> "Trilinear":
        require_equal_widths(cls, query_width, key_width)
        return cls(query_width)

    def forward(self, query: Float[Tensor, "*#b Q D"], key: Float[Tensor, "*#b K D"]) -> Float[Tensor, "*b Q K"]:
        alone = (query @ self.query).unsqueeze(-1) + (key @ self.key).unsqueeze(-2)
        return alone + (query * self.both) @ key.mT

    def prepare(self, key: Float[Tensor, "*b K D"]) -> Float[Tensor, "*b K Dp"]:
        require_width("key", key, len(self.key), self)
        alone = (key @ self.key).unsqueeze(-1)
        return torch.cat([key, torch.ones_like(alone), alone], dim=-1)

    def to_normal_form(self, query: Float[Tensor, "*#b Q D"], prepared: Float[Tensor, "*#b K Dp"]) -> DotForm:
        require_width("query", query, len(self.query), self)
        require_width("prepared key", prepared, len(self.key) + 2, self)
        alone = (query @ self.query).unsqueeze(-1)
        return DotForm(torch.cat([query * self.both, alone, torch.ones_like(alone)], dim=-1), prepared, scale=1.0)

    def slopes(self, form: DotForm | TanhForm) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
        """Return the slopes; the terms w_qᵀ q and w_kᵀ k belong to the query and the key alone."""
        query, key = form.query[0] / 2, form.key[0] / 2
        query[-2:], key[-2:] = query.new_tensor([0.0, 1.0]), key.new_tensor([1.0, 0.0])
        return key, query

    def numbers(self, form: DotForm | TanhForm) -> str:
        *both, query, key = form.terms().tolist()
        return f"{query:.4g} + {key:.4g} + {sum(both):.4g}"
