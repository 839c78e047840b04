"""Two texts as one input of a pair encoder: [CLS] question [SEP] document [SEP]."""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor


class Joined(NamedTuple):
    """[CLS] question [SEP] document [SEP], segments (document: 1), and the document positions."""

    tokens: Int[Tensor, "B L"]
    types: Int[Tensor, "B L"]
    places: Int[Tensor, "B K"]


def join(question: Int[Tensor, "B Q"], document: Int[Tensor, "B K"], cls: int, sep: int, pad: int) -> Joined:
    """Padding between the two is left out: the document follows its question at once."""
    asked, read = ((ids != pad).sum(1, keepdim=True) for ids in (question, document))
    Q, K = question.shape[1], document.shape[1]
    tokens = question.new_full((question.shape[0], Q + K + 3), pad)
    tokens[:, 0] = cls
    tokens[:, 1 : Q + 1] = question
    tokens.scatter_(1, asked + 1, sep)
    places = asked + 2 + torch.arange(K, device=question.device)
    tokens.scatter_(1, places, document)  # its padding lands on padding
    tokens.scatter_(1, asked + 2 + read, sep)
    if not torch.compiler.is_exporting():  # a graph cannot know how much of the end is padding in all rows
        tokens = tokens[:, : int((asked + read).max()) + 3]
    at = torch.arange(tokens.shape[1], device=question.device)
    types = (at > asked + 1) & (at <= asked + 2 + read)
    return Joined(tokens, types.long(), places.clamp(max=tokens.shape[1] - 1))
