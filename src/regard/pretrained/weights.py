"""The weights of a pretrained file, taken one by one, so that unused ones can be reported at the end."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard.errors import CallError, RegardError

SHOWN = 8  # names in a message


class Weights:
    """Tensors by name. `take` gives each of them in float32; `finish` refuses those that were not taken."""

    def __init__(self, tensors: Mapping[str, Tensor], where: str) -> None:
        self._left, self.where = dict(tensors), where

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str) -> Tensor:
        if name not in self._left:
            raise RegardError(f"{self.where}: the weight {name!r} is missing")
        return self._left.pop(name).float()

    def drop(self, pattern: str) -> list[str]:
        """Leave out what a model of ours has no use for, such as tables that are computed."""
        found = [name for name in self._left if re.fullmatch(pattern, name)]
        for name in found:
            del self._left[name]
        return found

    def stripped(self, prefix: str) -> "Weights":
        """The same without the prefix that a model with a head puts before the names of its body."""
        if any(name.startswith(prefix) for name in self._left):
            self._left = {name.removeprefix(prefix): tensor for name, tensor in self._left.items()}
        return self

    def rename(self, names: Mapping[str, str]) -> None:
        """Layers under other names."""
        for old, new in names.items():
            parts = [name for name in self._left if name.rpartition(".")[0] == old]
            self._left |= {f"{new}.{name.rpartition('.')[2]}": self._left.pop(name) for name in parts}

    def finish(self) -> None:
        if self._left:
            some = ", ".join(sorted(self._left)[:SHOWN]) + (", ..." if len(self._left) > SHOWN else "")
            raise RegardError(
                f"{self.where}: {len(self._left)} weights are not understood, so the model would not be the same "
                f"without them: {some}"
            )


def read_weights(folder: Path, *, convert_pickle: bool = False) -> Weights:
    """model.safetensors, in one file or in several with an index; pytorch_model.bin only if that is asked for."""
    for name, load in (("model.safetensors", load_file), ("pytorch_model.bin", _load_pickle)):
        files = _files(folder, name)
        if not files:
            continue
        if load is _load_pickle and not convert_pickle:
            raise CallError(
                f"{files[0]} is a pickle, which can hold code. `--convert-pickle` reads tensors from it and nothing "
                "else (torch's weights_only); better, ask for a folder with model.safetensors"
            )
        tensors: dict[str, Tensor] = {}
        for file in files:
            try:
                tensors |= load(file)
            except (OSError, SafetensorError, RuntimeError, ValueError) as error:
                raise RegardError(f"{file} cannot be read: {error}") from None
        return Weights(tensors, str(folder / name))
    there = ", ".join(sorted(file.name for file in folder.iterdir())) or "nothing"
    raise CallError(f"{folder} has no model.safetensors; there is: {there}")


def _files(folder: Path, name: str) -> list[Path]:
    index = folder / f"{name}.index.json"
    if (folder / name).is_file():
        return [folder / name]
    if not index.is_file():
        return []
    names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    if any(Path(part).name != part for part in names):
        raise RegardError(f"{index} points outside of its folder")
    return [folder / part for part in names]


def _load_pickle(file: Path) -> dict[str, Tensor]:
    import pickle

    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise RegardError(f"{file} holds more than tensors, and is not read: {str(error).splitlines()[0]}") from None
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise RegardError(f"{file} is not a table of tensors by name")
    return found
