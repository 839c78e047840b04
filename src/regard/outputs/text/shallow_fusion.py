"""Shallow fusion of a recognizer with a language model (`decoding/ctc_joint.py`)."""

import torch

from regard.data.tokenizer import Tokenizer
from regard.decoding.ctc_joint import LanguageModelVoice
from regard.models.language_model import LanguageModel
from regard.other_run import load_other_run
from regard.outputs.text.token_places import token_places

FIELD = "decoding.language_model"


def language_model_voice(folder: str, weight: float, tokenizer: Tokenizer, device: torch.device) -> LanguageModelVoice:
    """Load a run of the job `generate`. Its vocabulary must contain every token of `tokenizer`, in any order."""
    job, model = load_other_run(FIELD, folder, "generate", device)
    assert isinstance(model, LanguageModel)
    places = token_places(f"{FIELD}={folder}", job.input.tokenizer, tokenizer)
    return LanguageModelVoice(model, model.start, weight, torch.tensor(places, device=device))
