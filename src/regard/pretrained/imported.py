"""What a family of models is read into, and how it becomes the folder of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from torch import Tensor

from regard import config
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.files import atomic

NO_DATA = "(imported: give data.train)"  # where a recipe has to name training data, and there is none


@dataclass(frozen=True)
class Imported:
    """A recipe as a tree, the weights under our names, and the tokenizers by the names of their files."""

    recipe: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # other texts that the job keeps beside the weights
    notes: list[str] = field(default_factory=list)  # what was left out, for the user

    @property
    def parameters(self) -> int:
        return sum({tensor.data_ptr(): tensor.numel() for tensor in self.weights.values()}.values())


def write_run(found: Imported, folder: Path, *, source: str) -> None:
    """Write the folder of a run, completely or not at all. Raise if the folder has files."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CallError(f"{folder} is there already: give another -o, or remove it")
    recipe = config.build(dict(found.recipe), source)

    def fill(part: Path) -> None:
        tree = yaml.safe_dump(config.as_tree(recipe), allow_unicode=True, sort_keys=False)
        (part / "config.yaml").write_text(tree, encoding="utf-8")
        for name, tokenizer in found.tokenizers.items():
            tokenizer.save(part / name)
        for name, text in found.files.items():
            (part / name).write_text(text, encoding="utf-8")
        (part / "README.md").write_text(_card(found, folder.name, source), encoding="utf-8")
        atomic.write_tensors(part / "model.safetensors", found.weights)

    atomic.write_folder(folder, fill)


def _card(found: Imported, name: str, source: str) -> str:
    job = found.recipe["job"]
    notes = [f"- {note}" for note in found.notes]
    lines = [
        f"# {name}",
        "",
        f"{found.recipe.get('about') or job}. Imported from `{source}`; {found.parameters:,} parameters.",
        "",
        f'    regard predict runs/{name} "..."',
        "",
        *([*notes, ""] if notes else []),
        "The licence is that of the original. Weights are safetensors; nothing in this folder can execute.",
    ]
    return "\n".join(lines) + "\n"
