"""Sentences to pictures: a Transformer decoder over the tokens of a text, then those of a picture.

    p(text, picture) = Π_t p(y_t | y_<t),      y = <s>, text, </s>, padding, codes of the picture row by row
    L = Σ_picture −log p(y_t | y_<t)  +  λ Σ_text −log p(y_t | y_<t)

DALL·E: Ramesh et al. 2021, sections 2.1 to 2.3 (arXiv:2102.12092). Text and picture share one vocabulary, the codes
after the words, and one decoder of `models.language_model`. A text is filled up to a fixed length, so that a picture
always begins at the same place: the vector of padding is zero, and what is left of it is the position, which makes
"a special padding token separately for each of the text positions". A region's position is its row and its column.
Where this differs: attention is dense and not sparse, codes are nearest vectors (`models.picture_tokens`), and the
weight of text is λ a token, 1/7 like the paper's 1 to 7, which weighs means.

Two stages: first the tokenizer of pictures alone, then, with the tokenizer as it is, the decoder. The batch selects
which one is trained; the other gets no gradient and does not change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from regard.encoders.image import Colors, ConvNet, Convolution, PictureEncoder
from regard.errors import CallError
from regard.layers.loss import OutputLoss
from regard.models.language_model import LanguageModel
from regard.special_tokens import PAD, START

# Vector quantization: each vector is replaced by the nearest of K learned vectors, its *code*.
#
#     k = argmin_k ‖z − e_k‖,      forward: e_k,   backward: ∂L/∂z = ∂L/∂e_k  (straight through)
#     L = β ‖z − sg[e_k]‖²                                                     (commitment: z stays near its code)
#     n_k ← γ n_k + (1 − γ) Σ 1,   m_k ← γ m_k + (1 − γ) Σ z,   e_k = m_k / n_k      over the z whose code is k
#
# van den Oord et al. 2017, section 3.2 and appendix A.1 (arXiv:1711.00937). A rarely chosen code is moved to a vector
# of the batch (the random restart of Dhariwal et al. 2020, section 3.1, arXiv:2005.00341); here such vectors are
# sampled in proportion to their coding error, so that codes move where they are missing.
#
# The codes are buffers, not weights: they follow the data, without an optimizer. With several processes all use those
# of the first, because torch copies its buffers to the others before each step.

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


# Pictures as tokens: a convolutional autoencoder with a codebook in its middle (VQ-VAE).
#
#     z = W encoder(x),   e = nearest code of each z,   x̂ = decoder(e)
#     L = ½ Σ (x − x̂)² + β Σ ‖z − sg[e]‖²
#
# van den Oord et al. 2017, equation 3 (arXiv:1711.00937); its second term, which moves the codes, is the running mean
# of `layers.codebook`. x are pixels less their mean, divided by their deviation, so the first term is the
# log-likelihood of the pixels under a normal distribution of width one, up to a constant. DALL·E's tokenizer is the
# same with a Gumbel softmax in place of the nearest code (Ramesh et al. 2021, section 2.1, arXiv:2102.12092).
#
# The encoder is the CNN of captioning, without its norms: what a region looks like must not depend on the rest of the
# picture, or the same color would have many codes. The decoder goes the way back, by convolutions that double sides.


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
            parts += [_upsample(wide, narrow), nn.ReLU()]
        self.decoder = nn.Sequential(*parts, _upsample(back[-1], channels))

    def forward(self, pixels: UInt8[Tensor, "B C H W"]) -> Reconstruction:
        x = (pixels.float() / 255 - self.encoder.mean) / self.encoder.deviation
        z = self.enter(self.encoder(pixels).vectors)
        codes, vectors, distance = self.codebook(z.flatten(0, 1))
        made = self._decode_all(vectors.view_as(z))
        error = (x - made).square().flatten(1).sum(1)
        return Reconstruction(codes.view(z.shape[:2]), error, distance.view(z.shape[:2]).sum(1))

    def codes(self, pixels: UInt8[Tensor, "B C H W"]) -> Int[Tensor, "B K"]:
        z = self.enter(self.encoder(pixels).vectors)
        return self.codebook.codes(z.flatten(0, 1)).view(z.shape[:2])

    def pictures(self, codes: Int[Tensor, "B K"], drawn: Int[Tensor, " B"] | None = None) -> UInt8[Tensor, "B C H W"]:
        """`drawn`: number of regions generated so far; the others are filled with the mean of all codes."""
        drawn = torch.full_like(codes[:, 0], codes.shape[1]) if drawn is None else drawn
        return (self.paint(codes, drawn) * 255).round().to(torch.uint8)

    def paint(self, codes: Int[Tensor, "B K"], drawn: Int[Tensor, " B"]) -> Float[Tensor, "B C H W"]:
        """From 0 to 1."""
        made = self._decode_all(self._start(codes, drawn))
        return (made * self.encoder.deviation + self.encoder.mean).clamp(0, 1)

    def _start(self, codes: Int[Tensor, "B K"], drawn: Int[Tensor, " B"]) -> Float[Tensor, "B K D"]:
        ahead = torch.arange(codes.shape[1], device=codes.device) >= drawn[:, None]
        return torch.where(ahead[:, :, None], self.codebook.table.mean(0), self.codebook.table[codes])

    def _decode_all(self, vectors: Float[Tensor, "B K D"]) -> Float[Tensor, "B C H W"]:
        return self.decoder(vectors.mT.unflatten(2, self.grid))


def _upsample(inputs: int, channels: int) -> nn.Module:
    return nn.ConvTranspose2d(inputs, channels, 4, stride=2, padding=1)


@dataclass(frozen=True)
class DrawBatch:
    """Pictures, and a text of each: ids that end with </s>, padded with 0. A row without text does not count."""

    pixels: UInt8[Tensor, "B C H W"]
    text: Int[Tensor, "B T"]
    tokenizing: bool  # the first stage: pictures only

    def to(self, device: torch.device | str) -> "DrawBatch":
        pixels, text = (part.to(device, non_blocking=True) for part in (self.pixels, self.text))
        return DrawBatch(pixels, text, self.tokenizing)


class TextToImage(nn.Module):
    in_stages = True

    def __init__(
        self,
        tokenizer: PictureTokenizer,
        writer: LanguageModel,
        *,
        words: int,
        text_length: int,
        text_weight: float = 1 / 7,
        tokenizer_rate: float = 1.0,
    ) -> None:
        """
        writer        vocabulary: `words` tokens of text, then the codes of the tokenizer
        text_length   tokens that a text is filled up to, </s> included
        text_weight   λ
        tokenizer_rate   learning rate of the tokenizer, relative to the decoder's
        """
        super().__init__()
        self.tokenizer, self.writer = tokenizer, writer
        self.words, self.text_length, self.text_weight = words, text_length, text_weight
        self.tokenizer_rate = tokenizer_rate

    def rates(self) -> dict[Tensor, float]:
        """Learning rates of weights, relative to the schedule's."""
        return dict.fromkeys(self.tokenizer.parameters(), self.tokenizer_rate)

    @property
    def regions(self) -> int:
        return self.tokenizer.grid[0] * self.tokenizer.grid[1]

    def forward(self, batch: DrawBatch) -> OutputLoss:
        """A sum over regions in both stages."""
        real = (batch.text != PAD).any(1)
        if batch.tokenizing:
            made = self.tokenizer(batch.pixels)
            losses = 0.5 * made.error + self.tokenizer.commitment * made.distance
            return OutputLoss((losses * real).sum(), int(real.sum()) * self.regions)
        tokens = self.tokens(batch.text, self.tokenizer.codes(batch.pixels)).masked_fill(~real.unsqueeze(1), PAD)
        features, targets = self.writer.features(tokens[:, :-1]), tokens[:, 1:]
        told, drawn = (
            self._cross_entropy(features[:, part], targets[:, part])
            for part in (slice(self.text_length), slice(self.text_length, None))
        )
        return OutputLoss(drawn.total + self.text_weight * told.total, drawn.count, drawn.correct)

    def _cross_entropy(self, features: Float[Tensor, "B T D"], targets: Int[Tensor, "B T"]) -> OutputLoss:
        smoothing = self.writer.label_smoothing if self.training else 0.0
        return self.writer.loss(features.flatten(0, 1), targets.flatten(), smoothing=smoothing, pad=PAD)

    def prompt(self, text: Int[Tensor, "B T"]) -> Int[Tensor, "B L"]:
        """Return <s>, the text and its padding: the input before the first region."""
        return F.pad(F.pad(text, (1, 0), value=START), (0, self.text_length - text.shape[1]), value=PAD)

    def tokens(self, text: Int[Tensor, "B T"], codes: Int[Tensor, "B K"]) -> Int[Tensor, "B L"]:
        """Return the whole sequence: prompt and codes."""
        return torch.cat([self.prompt(text), codes + self.words], dim=1)

    def scores(self, text: Int[Tensor, "B T"], codes: Int[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Return log p of each region, given the text and the regions before it."""
        tokens = self.tokens(text, codes)
        features = self.writer.features(tokens[:, :-1])[:, self.text_length :]
        return self.writer.log_probabilities(features, tokens[:, self.text_length + 1 :])
