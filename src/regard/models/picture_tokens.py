"""Pictures as tokens: a convolutional autoencoder with a codebook in its middle (VQ-VAE).

    z = W encoder(x),   e = nearest code of each z,   x̂ = decoder(e)
    L = ½ Σ (x − x̂)² + β Σ ‖z − sg[e]‖²

van den Oord et al. 2017, equation 3 (arXiv:1711.00937); its second term, which moves the codes, is the running mean of
`layers.codebook`. x are pixels less their mean, divided by their deviation, so the first term is the log-likelihood of
the pixels under a normal distribution of width one, up to a constant. DALL·E's tokenizer is the same with a Gumbel
softmax in place of the nearest code (Ramesh et al. 2021, section 2.1, arXiv:2102.12092).

The encoder is the CNN of captioning, without its norms: what a region looks like must not depend on the rest of the
picture, or the same color would have many codes. The decoder goes the way back, by convolutions that double sides.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from regard.encoders.cnn import ConvNet, Convolution
from regard.encoders.image_input import Colors, PictureEncoder
from regard.errors import CallError
from regard.layers.codebook import Codebook


class Reconstruction(NamedTuple):
    codes: Int[Tensor, "B K"]
    error: Float[Tensor, " B"]  # Σ (x − x̂)² of each picture
    distance: Float[Tensor, " B"]  # Σ ‖z − sg[e]‖² of each picture


class PictureTokenizer(nn.Module):
    def __init__(
        self,
        size: tuple[int, int],
        stages: Sequence[int],
        codes: int,
        *,
        width: int = 16,
        depth: int = 1,
        channels: int = 3,
        colors: Colors,
        commitment: float = 0.25,
    ) -> None:
        """
        size      rows × columns of pixels; each of the `stages` (channels of convolutions) halves both
        codes     how many different tokens there are; `width`: of their vectors
        """
        super().__init__()
        if any(side % 2 ** len(stages) for side in size):
            raise CallError(f"{len(stages)} stages cannot halve {size[0]}×{size[1]} pixels without a rest")
        self.encoder = PictureEncoder(
            ConvNet(size, stages, depth=depth, channels=channels, normalized=False), colors=colors
        )
        self.grid, self.commitment = self.encoder.grid, commitment
        self.enter = nn.Linear(stages[-1], width)
        self.codebook = Codebook(codes, width)
        back = stages[::-1]
        parts: list[nn.Module] = [nn.Conv2d(width, stages[-1], 3, padding=1)]
        for wide, narrow in pairwise(back):
            parts += [Convolution(wide, wide, stride=1, normalized=False) for _ in range(depth)]
            parts += [_doubled(wide, narrow), nn.ReLU()]
        self.decoder = nn.Sequential(*parts, _doubled(back[-1], channels))

    def forward(self, pixels: UInt8[Tensor, "B C H W"]) -> Reconstruction:
        x = (pixels.float() / 255 - self.encoder.mean) / self.encoder.deviation
        z = self.enter(self.encoder(pixels).vectors)
        codes, vectors, distance = self.codebook(z.flatten(0, 1))
        made = self._decoded(vectors.view_as(z))
        error = (x - made).square().flatten(1).sum(1)
        return Reconstruction(codes.view(z.shape[:2]), error, distance.view(z.shape[:2]).sum(1))

    def codes(self, pixels: UInt8[Tensor, "B C H W"]) -> Int[Tensor, "B K"]:
        z = self.enter(self.encoder(pixels).vectors)
        return self.codebook.codes(z.flatten(0, 1)).view(z.shape[:2])

    def pictures(self, codes: Int[Tensor, "B K"], drawn: Int[Tensor, " B"] | None = None) -> UInt8[Tensor, "B C H W"]:
        """`drawn`: number of regions generated so far; the others are filled with the mean of all codes."""
        drawn = torch.full_like(codes[:, 0], codes.shape[1]) if drawn is None else drawn
        return (self.painted(codes, drawn) * 255).round().to(torch.uint8)

    def painted(self, codes: Int[Tensor, "B K"], drawn: Int[Tensor, " B"]) -> Float[Tensor, "B C H W"]:
        """From 0 to 1."""
        made = self._decoded(self._begun(codes, drawn))
        return (made * self.encoder.deviation + self.encoder.mean).clamp(0, 1)

    def _begun(self, codes: Int[Tensor, "B K"], drawn: Int[Tensor, " B"]) -> Float[Tensor, "B K D"]:
        ahead = torch.arange(codes.shape[1], device=codes.device) >= drawn[:, None]
        return torch.where(ahead[:, :, None], self.codebook.table.mean(0), self.codebook.table[codes])

    def _decoded(self, vectors: Float[Tensor, "B K D"]) -> Float[Tensor, "B C H W"]:
        return self.decoder(vectors.mT.unflatten(2, self.grid))


def _doubled(inputs: int, channels: int) -> nn.Module:
    return nn.ConvTranspose2d(inputs, channels, 4, stride=2, padding=1)
