"""Word dropout: in training, random words are replaced by the unknown word, so that the model relies less on single
words and learns a vector for unknown words.

    y_t ← <unk> with probability p

Iyyer et al. 2015, section 4 (aclanthology.org/P15-1162), who remove the words instead.
"""

import torch
from jaxtyping import Int
from torch import Tensor, nn


class WordDropout(nn.Module):
    kept: Tensor

    def __init__(self, share: float, *, unknown: int, keep: list[int]) -> None:
        """`keep`: tokens that are never replaced, such as padding, start and end."""
        super().__init__()
        self.share, self.unknown = share, unknown
        self.register_buffer("kept", torch.tensor(keep), persistent=False)

    def forward(self, tokens: Int[Tensor, "B S"]) -> Int[Tensor, "B S"]:
        if not self.training:
            return tokens
        drop = torch.rand(tokens.shape, device=tokens.device) < self.share
        return tokens.masked_fill(drop & ~torch.isin(tokens, self.kept), self.unknown)
