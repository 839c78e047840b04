"""Vector quantization: each vector is replaced by the nearest of K learned vectors, its *code*.

    k = argmin_k ‖z − e_k‖,      forward: e_k,   backward: ∂L/∂z = ∂L/∂e_k  (straight through)
    L = β ‖z − sg[e_k]‖²                                                     (commitment: z stays near its code)
    n_k ← γ n_k + (1 − γ) Σ 1,   m_k ← γ m_k + (1 − γ) Σ z,   e_k = m_k / n_k      over the z whose code is k

van den Oord et al. 2017, section 3.2 and appendix A.1 (arXiv:1711.00937). A rarely chosen code is moved
to a vector of the batch (the random restart of Dhariwal et al. 2020, section 3.1, arXiv:2005.00341); here such
vectors are sampled in proportion to their coding error, so that codes move where they are missing.

The codes are buffers, not weights: they follow the data, without an optimizer. With several
processes all use those of the first, because torch copies its buffers to the others before each step.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

DECAY = 0.97  # γ: averages over about the last 30 batches
RARE = 0.03  # codes chosen less often than this share of the average are moved


class Coded(NamedTuple):
    codes: Int[Tensor, " N"]
    vectors: Float[Tensor, "N D"]  # e_k, with the gradient of z
    distance: Float[Tensor, " N"]  # ‖z − sg[e_k]‖²


class Codebook(nn.Module):
    table: Tensor
    chosen: Tensor
    sums: Tensor

    def __init__(self, codes: int, width: int) -> None:
        super().__init__()
        table = torch.randn(codes, width)
        self.register_buffer("table", table)
        self.register_buffer("chosen", torch.zeros(codes))  # n_k; 0, so that the first batch places all codes
        self.register_buffer("sums", torch.zeros(codes, width))  # m_k

    def forward(self, z: Float[Tensor, "N D"]) -> Coded:
        """Return the codes of vectors; in training, then update the codebook."""
        codes = self.codes(z)
        vectors = self.table[codes]
        distance = (z - vectors).square().sum(1)
        straight = z + (vectors - z).detach()
        if self.training:
            self._follow(z.detach().float(), codes, distance.detach().float())
        return Coded(codes, straight, distance)

    @torch.no_grad()
    def codes(self, z: Float[Tensor, "N D"]) -> Int[Tensor, " N"]:
        """Return the nearest code of each vector; ‖z‖² is the same for all k and omitted."""
        z, table = z.float(), self.table.float()
        return torch.addmm(table.square().sum(1), z, table.T, alpha=-2).argmin(1)

    @torch.no_grad()
    def _follow(self, z: Float[Tensor, "N D"], codes: Int[Tensor, " N"], distance: Float[Tensor, " N"]) -> None:
        size = len(self.table)
        self.chosen.lerp_(torch.bincount(codes, minlength=size).to(self.chosen.dtype), 1 - DECAY)
        self.sums.lerp_(torch.zeros_like(self.sums).index_add_(0, codes, z), 1 - DECAY)
        usual = len(z) / size
        rare = self.chosen < RARE * usual
        places = torch.multinomial(distance + 1e-8, size, replacement=True)
        # Moved codes start with half of the average count, so that they have time to be chosen.
        self.chosen.copy_(torch.where(rare, 0.5 * usual, self.chosen))
        self.sums.copy_(torch.where(rare.unsqueeze(1), 0.5 * usual * z[places], self.sums))
        self.table.copy_(self.sums / self.chosen.unsqueeze(1))


def use(codes: Int[Tensor, " N"], size: int) -> Float[Tensor, ""]:
    """Return the effective number of codes in use: exp of the entropy of their frequencies (perplexity)."""
    share = torch.bincount(codes, minlength=size).double()
    share = share / share.sum().clamp(min=1)
    return torch.special.entr(share).sum().exp()
