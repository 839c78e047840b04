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

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from regard.layers.loss import Loss
from regard.models.language_model import LanguageModel
from regard.models.picture_tokens import PictureTokenizer
from regard.special_tokens import PAD, START


@dataclass(frozen=True)
class DrawBatch:
    """Pictures, and a text of each: ids that end with </s>, padded with 0. A row without text does not count."""

    pixels: UInt8[Tensor, "B C H W"]
    text: Int[Tensor, "B T"]
    tokenizing: bool  # the first stage: pictures only

    def to(self, device: torch.device | str) -> "DrawBatch":
        pixels, text = (part.to(device, non_blocking=True) for part in (self.pixels, self.text))
        return DrawBatch(pixels, text, self.tokenizing)


class Drawer(nn.Module):
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

    def forward(self, batch: DrawBatch) -> Loss:
        """A sum over regions in both stages."""
        real = (batch.text != PAD).any(1)
        if batch.tokenizing:
            made = self.tokenizer(batch.pixels)
            losses = 0.5 * made.error + self.tokenizer.commitment * made.distance
            return Loss((losses * real).sum(), int(real.sum()) * self.regions)
        tokens = self.tokens(batch.text, self.tokenizer.codes(batch.pixels)).masked_fill(~real.unsqueeze(1), PAD)
        features, targets = self.writer.features(tokens[:, :-1]), tokens[:, 1:]
        told, drawn = (
            self._cross_entropy(features[:, part], targets[:, part])
            for part in (slice(self.text_length), slice(self.text_length, None))
        )
        return Loss(drawn.total + self.text_weight * told.total, drawn.count, drawn.correct)

    def _cross_entropy(self, features: Float[Tensor, "B T D"], targets: Int[Tensor, "B T"]) -> Loss:
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
