"""Weights of a pretrained file, taken one by one, so that unused ones are reported at the end."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from regard import config
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError, RegardError
from regard.files import atomic

SHOWN = 8  # names in a message


class Weights:
    """Tensors by name. `take` returns one in float32; `finish` raises if some were not taken."""

    def __init__(self, tensors: Mapping[str, Tensor], where: str) -> None:
        self._left, self.where = dict(tensors), where

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str) -> Tensor:
        if name not in self._left:
            raise RegardError(f"{self.where}: the weight {name!r} is missing")
        return self._left.pop(name).float()

    def drop(self, pattern: str) -> list[str]:
        """Drop weights that our models do not need, such as tables that are computed."""
        found = [name for name in self._left if re.fullmatch(pattern, name)]
        for name in found:
            del self._left[name]
        return found

    def strip_prefix(self, prefix: str) -> "Weights":
        """Return the weights without the prefix that a model with a head adds to the names of its body."""
        if any(name.startswith(prefix) for name in self._left):
            self._left = {name.removeprefix(prefix): tensor for name, tensor in self._left.items()}
        return self

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename layers."""
        for old, new in names.items():
            parts = [name for name in self._left if name.rpartition(".")[0] == old]
            self._left |= {f"{new}.{name.rpartition('.')[2]}": self._left.pop(name) for name in parts}

    def finish(self) -> None:
        if self._left:
            some = ", ".join(sorted(self._left)[:SHOWN]) + (", ..." if len(self._left) > SHOWN else "")
            raise RegardError(
                f"{self.where}: {len(self._left)} weights are not supported, and the model would differ "
                f"without them: {some}"
            )


def read_weights(folder: Path, *, convert_pickle: bool = False) -> Weights:
    """Read model.safetensors, one file or several with an index; pytorch_model.bin only with `convert_pickle`."""
    for name, load in (("model.safetensors", load_file), ("pytorch_model.bin", _load_pickle)):
        files = _files(folder, name)
        if not files:
            continue
        if load is _load_pickle and not convert_pickle:
            raise CallError(
                f"{files[0]} is a pickle, which can hold code. `--convert-pickle` reads only tensors from it "
                "(torch's weights_only); better, use a folder with model.safetensors"
            )
        tensors: dict[str, Tensor] = {}
        for file in files:
            try:
                tensors |= load(file)
            except (OSError, SafetensorError, RuntimeError, ValueError) as error:
                raise RegardError(f"{file} cannot be read: {error}") from None
        return Weights(tensors, str(folder / name))
    there = ", ".join(sorted(file.name for file in folder.iterdir())) or "nothing"
    raise CallError(f"{folder} has no model.safetensors; it holds: {there}")


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


# Tables of weights with two names: import reads them from left to right, export from right to left.
#
#     ours = [theirs_1; theirs_2; …]        one below the other: queries, keys and values are one product of ours
#     ours = theirsᵀ                        GPT-2's linear layers hold input × output
#     ours = theirs[rows][:, columns]       another order of features
#
# Each is invertible: `to_theirs(table, to_ours(table, weights))` equals `weights`.


@dataclass(frozen=True)
class WeightMap:
    """One weight of ours, and the weights of their file that it is made of."""

    ours: str
    theirs: tuple[str, ...]
    sizes: tuple[int, ...] = ()  # rows of each of theirs; by default equal
    turned: bool = False  # theirs hold input × output
    ones: int = 0  # leading dimensions of size 1 in theirs
    skipped: int = 0  # unused first rows of theirs
    rows: Tensor | None = None  # ours[i] = theirs[rows[i]]
    columns: Tensor | None = None

    def with_prefix(self, ours: str, theirs: str) -> "WeightMap":
        """Return the same map with prefixes before both names."""
        return replace(self, ours=ours + self.ours, theirs=tuple(theirs + name for name in self.theirs))

    def read(self, weights: Weights) -> Tensor:
        parts = [weights.take(name).flatten(0, self.ones) for name in self.theirs]
        whole = torch.cat([part.T for part in parts] if self.turned else parts)[self.skipped :]
        whole = whole if self.rows is None else whole[self.rows]
        return (whole if self.columns is None else whole[:, self.columns]).contiguous()

    def write(self, tensor: Tensor) -> dict[str, Tensor]:
        if self.columns is not None:
            tensor = tensor[:, self.columns.argsort()]
        if self.rows is not None:
            tensor = tensor[self.rows.argsort()]
        if self.skipped:
            tensor = torch.cat([tensor.new_zeros(self.skipped, *tensor.shape[1:]), tensor])
        sizes = list(self.sizes) or [len(tensor) // len(self.theirs)] * len(self.theirs)
        parts = [part.T if self.turned else part for part in tensor.split(sizes)]
        shaped = (part[(None,) * self.ones].contiguous() for part in parts)
        return dict(zip(self.theirs, shaped, strict=True))


def linear(
    ours: str,
    *theirs: str,
    bias: bool = True,
    sizes: Sequence[int] = (),
    transposed: bool = False,
    rows: Tensor | None = None,
    columns: Tensor | None = None,
) -> list[WeightMap]:
    """Return the maps of a linear layer or a norm; several of theirs become one of ours."""

    def named(part: str) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
        return f"{ours}.{part}", tuple(f"{name}.{part}" for name in theirs), tuple(sizes)

    weight = WeightMap(*named("weight"), turned=transposed, rows=rows, columns=columns)
    return [weight, WeightMap(*named("bias"), rows=rows)] if bias else [weight]


def to_ours(table: Iterable[WeightMap], weights: Weights) -> dict[str, Tensor]:
    return {one.ours: one.read(weights) for one in table}


def to_theirs(table: Iterable[WeightMap], weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for one in table:
        found |= one.write(weights[one.ours])
    return found


# The result of reading a pretrained model, and how it is written as a run.

NO_DATA = "(imported: give data.train)"  # for recipes without training data


@dataclass(frozen=True)
class Imported:
    """A recipe as a tree, weights by our names, and tokenizers by file name."""

    recipe: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # other text files of the job
    notes: list[str] = field(default_factory=list)  # notes to the user on omitted parts

    @property
    def parameters(self) -> int:
        return sum({tensor.data_ptr(): tensor.numel() for tensor in self.weights.values()}.values())


def write_run(found: Imported, folder: Path, *, source: str) -> None:
    """Write the folder of a run, completely or not at all. Raise if the folder has files."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CallError(f"{folder} already exists: give another -o, or remove it")
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
