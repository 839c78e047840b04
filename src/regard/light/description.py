"""Description of an exported run: `graphs.json`, `run.json` and the recipe."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard import config
from regard.errors import CallError, RegardError
from regard.settings.recipe import Recipe

GRAPHS, RUN_FILE, CONFIG = "graphs.json", "run.json", "config.yaml"


def is_export(folder: Path) -> bool:
    return (folder / GRAPHS).is_file()


@dataclass(frozen=True)
class Description:
    """
    graphs       by name: inputs with their shapes, and outputs
    says, reads  kind of the output and of the input, with their model-dependent fields
    attentions   by name: what each is for, and its layer
    """

    folder: Path
    recipe: Recipe
    graphs: dict[str, Any]
    says: dict[str, Any]
    reads: dict[str, Any]
    attentions: dict[str, tuple[str, int]]
    parameters: int
    scores: dict[str, float]
    examples: list[str]

    @classmethod
    def of(cls, folder: Path) -> "Description":
        if not (folder / RUN_FILE).is_file():
            raise CallError(
                f"{folder} has no {RUN_FILE}: it was written by an older version of regard; export the run again"
            )
        try:
            graphs = json.loads((folder / GRAPHS).read_text(encoding="utf-8"))["graphs"]
            about = json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
            about["attentions"] = {name: (kind, layer) for name, (kind, layer) in about["attentions"].items()}
            recipe = config.build(config.load_yaml(folder / CONFIG), str(folder / CONFIG))
            return cls(folder, recipe, graphs, **about)
        except (OSError, ValueError, KeyError, TypeError) as problem:
            if isinstance(problem, RegardError):
                raise
            raise RegardError(f"{folder} is damaged, or was written by another version of regard ({problem})") from None
