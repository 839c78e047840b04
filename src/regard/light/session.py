"""A graph in ONNX Runtime: named arrays in, named arrays out."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard import config
from regard.errors import CallError, RegardError, pip_install
from regard.settings.recipe import Recipe

Arrays = dict[str, np.ndarray]
SEEN = "attention."  # name prefix of outputs with attention weights


class OnnxSession:
    def __init__(self, file: Path) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise CallError(f"an export to ONNX needs onnxruntime: {pip_install('regard[light]')}") from None
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = _threads()
        try:
            self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        except Exception as problem:  # the library has a separate exception type for each problem
            raise RegardError(f"{file} is not a valid graph: {str(problem)[:300]}") from None
        self.inputs = [one.name for one in self._session.get_inputs()]
        self.outputs = [one.name for one in self._session.get_outputs()]
        self.plain = [name for name in self.outputs if not name.startswith(SEEN)]

    def __call__(self, arrays: Mapping[str, Any], *, watch: bool = False) -> Arrays:
        """Run the graph on the arrays that it reads; `watch`: also return attention weights."""
        wanted = self.outputs if watch else self.plain
        found = self._session.run(wanted, {name: arrays[name] for name in self.inputs})
        return dict(zip(wanted, map(np.asarray, found), strict=True))


def _threads() -> int:
    """Return the number of threads, as torch: OMP_NUM_THREADS, or 0 for automatic."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() else 0


def seen_in(arrays: Arrays) -> Arrays:
    """Return the weights of each attention by name."""
    return {name.removeprefix(SEEN): one for name, one in arrays.items() if name.startswith(SEEN)}


# Description of an exported run: `graphs.json`, `run.json` and the recipe.

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
