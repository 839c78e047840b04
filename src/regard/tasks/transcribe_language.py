"""A run of the job `generate` as a second opinion on texts (shallow fusion, see `decoding/ctc_joint.py`)."""

from functools import lru_cache
from pathlib import Path

import torch
import yaml
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_model

from regard.data.kinds import SPECIALS
from regard.data.tokens import Tokenizer
from regard.decoding.ctc_joint import LanguageModelVoice
from regard.errors import CallError, RegardError
from regard.models.language_model import LanguageModel
from regard.settings.generate import GenerateRecipe
from regard.tasks.generate import Generate


def voice(folder: str, weight: float, ours: Tokenizer, device: torch.device) -> LanguageModelVoice:
    """The language model of a run. It has to know every token of ours, in whatever order."""
    model, theirs = _loaded(folder, device)
    places = {piece: number for number, piece in enumerate(theirs.pieces(range(theirs.size)))}
    pieces = ours.pieces(range(ours.size))
    unknown = [piece for piece in pieces if piece not in places]
    if unknown:
        raise CallError(
            f"decoding.language_model={folder} does not know {len(unknown)} of the {len(pieces)} tokens of this model, "
            f"such as {unknown[0]!r}: both must have the same kind of tokens, learned from the same texts "
            "(data.tokenizer.kind=character in both will do)"
        )
    names = torch.tensor([places[piece] for piece in pieces], device=device)
    return LanguageModelVoice(model, model.start, weight, names)


@lru_cache(maxsize=2)
def _loaded(folder: str, device: torch.device) -> tuple[LanguageModel, Tokenizer]:
    place = Path(folder).expanduser()
    name = f"decoding.language_model={folder}"
    try:
        tree = yaml.safe_load((place / "config.yaml").read_text(encoding="utf-8"))
        task = Generate(GenerateRecipe.model_validate(tree))
        task.restore(place)
        model = task.build()
        load_model(model, place / "model.safetensors")
    except (OSError, RegardError) as problem:
        raise CallError(f"{name} is no run of the job generate ({problem})") from None
    except (ValidationError, yaml.YAMLError, SafetensorError, RuntimeError) as problem:
        raise CallError(f"{name} is no run of the job generate: {str(problem).splitlines()[0]}") from None
    if task.tokenizer.pieces(range(len(SPECIALS))) != SPECIALS:
        raise CallError(f"{name} has a vocabulary of another tool, with other tokens for begin and end")
    return model.to(device).eval(), task.tokenizer
