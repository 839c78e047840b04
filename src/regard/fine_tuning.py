"""Training that starts from another run: its tokenizers, its weights, and what of them stays as it is.

    start: runs/base          all weights whose names and shapes fit; rows of tables by token, where vocabularies differ
    training.freeze: [...]    these stay as they are
    training.lora: {...}      all of them stay, and low-rank adapters learn; what is new to this model learns, too

A run that goes on takes nothing from the start again: its own folder has its tokenizers and weights.
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

RECORD = "start.json"  # what was taken, in the folder of the run


def started(recipe: Recipe, folder: Path, make: Callable[[Recipe], Job]) -> Job:
    """The job, with the tokenizers of the start, or of its own folder if it goes on."""
    if recipe.training.lora is not None and recipe.start is None:
        raise CallError("training.lora adapts a trained model: say which, start=RUN")
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
    """Weights of the start into a model that is built; freeze and adapt. The folder has the model's tokenizers."""
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
    """Of each tokenizer that both folders have."""
    names = sorted(file.name for file in new.glob("tokenizer*.json") if (old / file.name).is_file())
    return [(_vocabulary(old / name), _vocabulary(new / name)) for name in names]


def _vocabulary(file: Path) -> Vocabulary:
    tokenizer = Tokenizer.load(file)
    return {piece: index for index, piece in enumerate(tokenizer.pieces(range(tokenizer.size)))}


def _write(file: Path, tree: dict) -> None:
    atomic.write_text(file, json.dumps(tree, ensure_ascii=False, indent=1))
