"""Training that starts from another run: load its tokenizers and weights, and freeze or adapt them.

    start: runs/base          all weights with equal names and shapes; rows by token, where vocabularies differ
    training.freeze: [...]    keep these weights unchanged
    training.lora: {...}      keep all loaded weights unchanged and train low-rank adapters; new weights are trained too

A resumed run takes nothing from the start again: its own folder has its tokenizers and weights.
"""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from regard import config
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError, RegardError, no_run
from regard.files import atomic
from regard.job import Job
from regard.settings.recipe import Recipe
from regard.training.checkpoint import refuse_what_is_no_number
from regard.training.initial_weights import Vocabulary, freeze, start_from
from regard.training.lora import adapt

RECORD = "start.json"  # record of the loaded weights, in the run's folder


def started(recipe: Recipe, folder: Path, make: Callable[[Recipe], Job]) -> Job:
    """Return the job with the tokenizers of the start, or of its own folder if it resumes."""
    if recipe.training.lora is not None and recipe.start is None:
        raise CallError("training.lora adapts a trained model: name it with start=RUN")
    if recipe.start is None:
        return make(recipe)
    origin = folder if _goes_on(folder) else Path(recipe.start.run)
    kept = _recipe_of(origin)
    if kept.job != recipe.job or (recipe.start.vocabulary == "new" and origin != folder):
        return make(recipe)
    before = make(kept)
    before.restore(origin)
    return before.with_recipe(recipe)


def initialize(model: nn.Module, recipe: Recipe, folder: Path, *, tell: bool) -> None:
    """Load weights of the start into a new model, then freeze or adapt. `folder` has the model's tokenizers."""
    training, console, new = recipe.training, Console(stderr=True), []
    if recipe.start is not None:
        if _goes_on(folder):
            new = json.loads((folder / RECORD).read_text(encoding="utf-8"))["new"]
        else:
            origin = Path(recipe.start.run)
            taken = start_from(model, _weights_of(origin), _vocabularies(origin, folder))
            new = [*taken.new, *taken.rows]
            if tell:
                console.print("\n".join(taken.sentences(str(origin))), highlight=False, markup=False)
                _write(folder / RECORD, {"run": str(origin), "whole": taken.whole, "rows": taken.rows, "new": new})
    if training.lora is not None:
        torch.manual_seed(training.seed)
        maps = adapt(model, training.lora.rank, training.lora.alpha, training.lora.targets, learning=new)
        if tell:
            console.print(f"adapters of rank {training.lora.rank} for {len(maps)} linear maps", highlight=False)
    frozen = freeze(model, training.freeze)
    if tell and (frozen or training.lora is not None):
        learning = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
        every = sum(weight.numel() for weight in model.parameters())
        console.print(f"{learning:,} of {every:,} numbers are trained ({learning / every:.1%})", highlight=False)


def _goes_on(folder: Path) -> bool:
    return (folder / RECORD).is_file() and any((folder / "state").glob("step-*"))


def _recipe_of(run: Path) -> Recipe:
    file = run / "config.yaml"
    if not file.is_file():
        raise CallError(f"start={run}: {no_run(run)}")
    return config.build(config.load_yaml(file), str(file))


def _weights_of(run: Path) -> dict[str, torch.Tensor]:
    file = run / "model.safetensors"
    try:
        weights = load_file(file)
    except (OSError, SafetensorError) as error:
        raise RegardError(f"start={run}: its weights cannot be read: {error}") from None
    refuse_what_is_no_number(weights, file)
    return weights


def _vocabularies(old: Path, new: Path) -> list[tuple[Vocabulary, Vocabulary]]:
    """Return the old and new vocabulary of each tokenizer that both folders have."""
    names = sorted(file.name for file in new.glob("tokenizer*.json") if (old / file.name).is_file())
    return [(_vocabulary(old / name), _vocabulary(new / name)) for name in names]


def _vocabulary(file: Path) -> Vocabulary:
    tokenizer = Tokenizer.load(file)
    return {piece: index for index, piece in enumerate(tokenizer.pieces(range(tokenizer.size)))}


def _write(file: Path, tree: dict) -> None:
    atomic.write_text(file, json.dumps(tree, ensure_ascii=False, indent=1))
