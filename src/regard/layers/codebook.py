"""Vectors to numbers and back: each vector becomes the nearest of K learned ones, its *code*.

    k = argmin_k ‖z − e_k‖,      forward: e_k,   backward: ∂L/∂z = ∂L/∂e_k  (straight through)
    L = β ‖z − sg[e_k]‖²                                                     (commitment: z stays near its code)
    n_k ← γ n_k + (1 − γ) Σ 1,   m_k ← γ m_k + (1 − γ) Σ z,   e_k = m_k / n_k      over the z whose code is k

van den Oord et al. 2017, section 3.2 and appendix A.1 (arXiv:1711.00937). A code that is hardly ever chosen is put
where a vector of the batch is (the random restart of Dhariwal et al. 2020, section 3.1, arXiv:2005.00341); here such
vectors are drawn by how badly they are coded, so that new codes go where codes are missing.

The codes are buffers and not weights: they follow the data by themselves, and no optimizer moves them. Among several
processes those of the first are everybody's, because torch copies its buffers to the others before each step.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

DECAY = 0.97  # γ: the last 30 batches or so count
RARE = 0.03  # chosen less often than this share of the average: a code that is put elsewhere


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
        self.register_buffer("chosen", torch.zeros(codes))  # n_k; none was chosen yet, so all of them are put anew
        self.register_buffer("sums", torch.zeros(codes, width))  # m_k

    def forward(self, z: Float[Tensor, "N D"]) -> Coded:
        """The codes of vectors; in training the codebook then follows the vectors."""
        codes = self.codes(z)
        vectors = self.table[codes]
        distance = (z - vectors).square().sum(1)
        straight = z + (vectors - z).detach()
        if self.training:
            self._follow(z.detach().float(), codes, distance.detach().float())
        return Coded(codes, straight, distance)

    @torch.no_grad()
    def codes(self, z: Float[Tensor, "N D"]) -> Int[Tensor, " N"]:
        """‖z‖² is the same for all k and left out."""
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
        # Those that are put anew count as half of the usual at first: time enough to be chosen.
        self.chosen.copy_(torch.where(rare, 0.5 * usual, self.chosen))
        self.sums.copy_(torch.where(rare.unsqueeze(1), 0.5 * usual * z[places], self.sums))
        self.table.copy_(self.sums / self.chosen.unsqueeze(1))


def use(codes: Int[Tensor, " N"], size: int) -> Float[Tensor, ""]:
    """exp of the entropy of how often each code occurs: as if so many were in use, all alike."""
    share = torch.bincount(codes, minlength=size).double()
    share = share / share.sum().clamp(min=1)
    return torch.special.entr(share).sum().exp()
