"""Fine-tuning: initialize a model with the weights of another one where they fit, and freeze some of them."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import init
from torch.nn.utils import parametrize
from torch.overrides import TorchFunctionMode

from regard.errors import CallError, nearest
from regard.files import atomic

Vocabulary = Mapping[str, int]  # piece → id


@dataclass(frozen=True)
class LoadReport:
    """Which weights were copied from the other model: whole, by rows (copied and total), or not at all."""

    whole: list[str] = field(default_factory=list)
    rows: dict[str, tuple[int, int]] = field(default_factory=dict)
    new: dict[str, str] = field(default_factory=dict)  # with the reason
    left: list[str] = field(default_factory=list)  # weights of the other model that this one does not have

    def sentences(self, origin: str) -> list[str]:
        every = len(self.whole) + len(self.rows) + len(self.new)
        said = [f"{len(self.whole)} of {every} weights are those of {origin}"]
        for name, (some, rows) in self.rows.items():
            rest = "; the others are new" if some < rows else ""
            said.append(f"{name}: {some:,} of {rows:,} rows, by token{rest}")
        said += [f"{name} is new: {why}" for name, why in self.new.items()]
        if self.left:
            said.append(f"not used: {', '.join(self.left)}")
        return said


@torch.no_grad()
def start_from(
    model: nn.Module, weights: Mapping[str, Tensor], vocabularies: Sequence[tuple[Vocabulary, Vocabulary]] = ()
) -> LoadReport:
    """Copy all weights whose names and shapes fit. `vocabularies`: (old, new) of each tokenizer that changed.

    In a table with one row a token, the rows of the tokens that both vocabularies have are copied.
    """
    taken, used = LoadReport(), set()
    for names, target in _by_tensor(model):
        name = next((name for name in names if name in weights), None)
        if name is None:
            taken.new[names[0]] = "the other run has no weight of this name"
            continue
        used.update(names)
        value = weights[name]
        if value.shape == target.shape:
            target.copy_(value)
            taken.whole.append(names[0])
        elif (pair := _fitting(value, target, vocabularies)) is not None:
            old, new = pair
            both = [(new[piece], index) for piece, index in old.items() if piece in new]
            places, sources = (torch.tensor(side) for side in zip(*both, strict=True))
            target[places.to(target.device)] = value[sources].to(target)
            taken.rows[names[0]] = (len(both), len(target))
        else:
            taken.new[names[0]] = f"it is {_shape(target)} here and {_shape(value)} there"
    taken.left.extend(sorted(name for name in weights if name not in used))
    if not taken.whole and not taken.rows:
        raise CallError("start: no weight of that run fits this model; use a run of the same kind and size")
    return taken


def freeze(model: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Freeze the weights that match the patterns, and return their names; `encoder` matches all weights inside it."""
    names = dict(model.named_parameters())
    frozen: list[str] = []
    for pattern in patterns:
        found = [name for name in names if fnmatchcase(name, pattern) or name.startswith(pattern + ".")]
        if not found:
            raise CallError(f"training.freeze: {pattern!r} names no weight{nearest(pattern, names)}")
        frozen += found
    for name in frozen:
        names[name].requires_grad_(False)
    if frozen and not any(weight.requires_grad for weight in names.values()):
        raise CallError("training.freeze matches all weights: nothing is left to train")
    return list(dict.fromkeys(frozen))


def _by_tensor(model: nn.Module) -> list[tuple[list[str], Tensor]]:
    """Return each weight and persistent buffer once, with all its names: tied weights have several."""
    found: dict[int, tuple[list[str], Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        found.setdefault(id(tensor), ([], tensor))[0].append(name)
    return list(found.values())


def _fitting(
    value: Tensor, target: Tensor, vocabularies: Sequence[tuple[Vocabulary, Vocabulary]]
) -> tuple[Vocabulary, Vocabulary] | None:
    if value.shape[1:] != target.shape[1:]:
        return None
    for old, new in vocabularies:
        if (len(old), len(new)) == (len(value), len(target)) and old.keys() & new.keys():
            return old, new
    return None


def _shape(tensor: Tensor) -> str:
    return " × ".join(map(str, tensor.shape)) or "a number"


FOLDER, ADAPTERS, SETTINGS = "adapter", "adapter_model.safetensors", "adapter_config.json"
KEY = "base_model.model.{}.lora_{}.weight"  # of a map's matrix A or B
_PART = re.compile(r"(.+)\.parametrizations\.weight\.(original|0\.A|0\.B|0\.scale)")


class LowRank(nn.Module):
    """Low-rank adaptation: a trained matrix is fixed, and the product of two small matrices is learned and added to
    it.

        W' = W + (α/r) B A        W: out × in, fixed;   A: r × in, random;   B: out × r, zero at the start

    Hu et al. 2021, section 4.1 (arXiv:2106.09685). With r = 8, a matrix of 1024 × 1024 has 16 thousand numbers to
    learn instead of a million; gradients and the optimizer's state shrink with them.

    Where we differ: W' is formed before it is used (a parametrisation of torch), so that whatever uses a layer's
    weight works as before; for our widths that costs little. `model.safetensors` has W' itself, under the usual
    name: every run is an ordinary model. The adapters are saved beside it, in the files of the library `peft`.
    """

    scale: Tensor

    def __init__(self, weight: Float[Tensor, "out in"], rank: int, alpha: float) -> None:
        super().__init__()
        self.A = nn.Parameter(weight.new_empty(rank, weight.shape[1]))
        self.B = nn.Parameter(weight.new_zeros(weight.shape[0], rank))
        self.register_buffer("scale", weight.new_tensor(alpha / rank))
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))

    def forward(self, weight: Float[Tensor, "out in"]) -> Float[Tensor, "out in"]:
        return weight + self.scale * (self.B @ self.A)


def adapt(model: nn.Module, rank: int, alpha: float, targets: Sequence[str], learning: Sequence[str] = ()) -> list[str]:
    """Add adapters to the linear maps that match `targets`; freeze all else except the weights in `learning`.

    Return the names of the maps. Weights are sampled from torch's generator: seed it before.
    """
    linear = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    chosen = [name for name in linear if any(fnmatchcase(name, pattern) for pattern in targets)]
    if not chosen:
        raise CallError(f"training.lora.targets: {', '.join(targets)} match no linear map{nearest(targets[0], linear)}")
    shared = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for name in chosen:
        if id(linear[name].weight) in shared:
            raise CallError(f"training.lora.targets: {name} shares its weights with the embedding: leave it out")
    for name, weight in model.named_parameters():
        weight.requires_grad_(name in learning)
    for name in chosen:
        layer = linear[name]
        layer.weight.requires_grad_(False)
        parametrize.register_parametrization(layer, "weight", LowRank(layer.weight, rank, alpha))
    return chosen


def merge_adapters(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Merge adapters into the state of the ordinary model: W' under the name of W. Others are unchanged."""
    parts, plain = _parts(weights)
    return plain | {f"{name}.weight": p["original"] + p["0.scale"] * (p["0.B"] @ p["0.A"]) for name, p in parts.items()}


def save_adapters(weights: dict[str, Tensor], folder: Path, base: str) -> None:
    """Write the adapters as `peft` does; nothing if there are none. `base`: the run they belong to."""
    parts, _ = _parts(weights)
    if not parts:
        return
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, part in parts.items():
        tensors |= {KEY.format(name, matrix): part[f"0.{matrix}"].contiguous() for matrix in "AB"}
    atomic.write_tensors(folder / FOLDER / ADAPTERS, tensors, {"format": "pt"})
    rank = len(next(iter(parts.values()))["0.A"])
    about = {
        "peft_type": "LORA", "base_model_name_or_path": base, "r": rank, "task_type": None, "bias": "none",
        "lora_alpha": round(float(next(iter(parts.values()))["0.scale"]) * rank, 6), "lora_dropout": 0.0,
        "target_modules": sorted(parts), "fan_in_fan_out": False, "inference_mode": True,
    }  # fmt: skip
    atomic.write_text(folder / FOLDER / SETTINGS, json.dumps(about, indent=1) + "\n")


def _parts(weights: dict[str, Tensor]) -> tuple[dict[str, dict[str, Tensor]], dict[str, Tensor]]:
    parts: dict[str, dict[str, Tensor]] = {}
    plain: dict[str, Tensor] = {}
    for name, value in weights.items():
        if match := _PART.fullmatch(name):
            parts.setdefault(match[1], {})[match[2]] = value
        else:
            plain[name] = value
    return parts, plain


# Skip random initialization for models whose weights are loaded afterwards: it takes longer than loading.

DRAWING = {Tensor.normal_, Tensor.uniform_, init.normal_, init.uniform_, init.kaiming_uniform_}  # all others call these


class SkipInit(TorchFunctionMode):
    """`with Undrawn(): model = build()`. The weights are uninitialized memory then."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in DRAWING:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
