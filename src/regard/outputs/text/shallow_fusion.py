"""A language model beside a recognizer, as a second opinion on its texts (shallow fusion; `decoding/ctc_joint.py`)."""

import torch

from regard.data.tokenizer import Tokenizer
from regard.decoding.ctc_joint import LanguageModelVoice
from regard.errors import CallError
from regard.models.language_model import LanguageModel
from regard.other_run import load_other_run
from regard.special_tokens import SPECIAL_TOKENS

FIELD = "decoding.language_model"


def language_model_voice(folder: str, weight: float, tokenizer: Tokenizer, device: torch.device) -> LanguageModelVoice:
    """A run of the job `generate`. It has to know every token of `tokenizer`, in whatever order."""
    job, model = load_other_run(FIELD, folder, "generate", device)
    theirs: Tokenizer = job.input.tokenizer
    if theirs.pieces(range(len(SPECIAL_TOKENS))) != SPECIAL_TOKENS:
        raise CallError(f"{FIELD}={folder} has a vocabulary of another tool, with other tokens for begin and end")
    assert isinstance(model, LanguageModel)
    places = {piece: number for number, piece in enumerate(theirs.pieces(range(theirs.size)))}
    pieces = tokenizer.pieces(range(tokenizer.size))
    unknown = [piece for piece in pieces if piece not in places]
    if unknown:
        raise CallError(
            f"{FIELD}={folder} does not know {len(unknown)} of the {len(pieces)} tokens of this model, "
            f"such as {unknown[0]!r}: both must have the same kind of tokens, learned from the same texts "
            "(data.tokenizer.kind=character in both will do)"
        )
    names = torch.tensor([places[piece] for piece in pieces], device=device)
    return LanguageModelVoice(model, model.start, weight, names)
