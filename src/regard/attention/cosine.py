"""Cosine with a temperature.

    e = cos(q, k) / τ

Graves, Wayne, Danihelka 2014, "Neural Turing Machines", section 3.3.1, arXiv:1410.5401, where 1/τ is the key strength
β. Only directions count, and scores stay within ±1/τ however large the vectors are. τ is learned, as its logarithm so
that it stays positive. A vector of length zero has no direction; its score is 0.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.score import DotForm, Score, TanhForm, at_least_float32, require_same_width


class Cosine(Score):
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

    def pair(self, query: Float[Tensor, "*#b Q Dq"], prepared: Float[Tensor, "*#b K Dk"]) -> DotForm:
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
