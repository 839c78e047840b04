"""A run of the job `generate` as a second opinion on texts (shallow fusion, see `decoding/ctc_joint.py`)."""

import torch

from regard.companion_run import companion
from regard.data.tokenizer import Tokenizer
from regard.decoding.ctc_joint import LanguageModelVoice
from regard.errors import CallError
from regard.models.language_model import LanguageModel
from regard.special_tokens import SPECIAL_TOKENS

FIELD = "decoding.language_model"


def voice(folder: str, weight: float, ours: Tokenizer, device: torch.device) -> LanguageModelVoice:
    """The language model of a run. It has to know every token of ours, in whatever order."""
    job, model = companion(FIELD, folder, "generate", device)
    theirs: Tokenizer = job.input.tokenizer
    if theirs.pieces(range(len(SPECIAL_TOKENS))) != SPECIAL_TOKENS:
        raise CallError(f"{FIELD}={folder} has a vocabulary of another tool, with other tokens for begin and end")
    assert isinstance(model, LanguageModel)
    places = {piece: number for number, piece in enumerate(theirs.pieces(range(theirs.size)))}
    pieces = ours.pieces(range(ours.size))
    unknown = [piece for piece in pieces if piece not in places]
    if unknown:
        raise CallError(
            f"{FIELD}={folder} does not know {len(unknown)} of the {len(pieces)} tokens of this model, "
            f"such as {unknown[0]!r}: both must have the same kind of tokens, learned from the same texts "
            "(data.tokenizer.kind=character in both will do)"
        )
    names = torch.tensor([places[piece] for piece in pieces], device=device)
    return LanguageModelVoice(model, model.start, weight, names)
