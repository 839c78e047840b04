"""A language model beside a recognizer, as a second opinion on its texts (shallow fusion; `decoding/ctc_joint.py`)."""

import torch

from regard.data.tokenizer import Tokenizer
from regard.decoding.ctc_joint import LanguageModelVoice
from regard.models.language_model import LanguageModel
from regard.other_run import load_other_run
from regard.outputs.text.token_places import token_places

FIELD = "decoding.language_model"


def language_model_voice(folder: str, weight: float, tokenizer: Tokenizer, device: torch.device) -> LanguageModelVoice:
    """A run of the job `generate`. It has to know every token of `tokenizer`, in whatever order."""
    job, model = load_other_run(FIELD, folder, "generate", device)
    assert isinstance(model, LanguageModel)
    places = token_places(f"{FIELD}={folder}", job.input.tokenizer, tokenizer)
    return LanguageModelVoice(model, model.start, weight, torch.tensor(places, device=device))
