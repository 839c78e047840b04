"""Low-rank adaptation: a trained matrix is fixed, and the product of two small matrices is learned and added to it.

    W' = W + (α/r) B A        W: out × in, fixed;   A: r × in, random;   B: out × r, zero at the start

Hu et al. 2021, section 4.1 (arXiv:2106.09685). With r = 8, a matrix of 1024 × 1024 has 16 thousand numbers to learn
instead of a million; gradients and the optimizer's state shrink with them.

Where we differ: W' is formed before it is used (a parametrisation of torch), so that whatever uses a layer's weight
works as before; for our widths that costs little. `model.safetensors` has W' itself, under the usual name: every run
is an ordinary model. The adapters are saved beside it, in the files of the library `peft`.
"""

import json
import math
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from regard.errors import CallError, nearest
from regard.files import atomic

FOLDER, ADAPTERS, SETTINGS = "adapter", "adapter_model.safetensors", "adapter_config.json"
KEY = "base_model.model.{}.lora_{}.weight"  # of a map's matrix A or B
_PART = re.compile(r"(.+)\.parametrizations\.weight\.(original|0\.A|0\.B|0\.scale)")


class LowRank(nn.Module):
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


def merged(weights: dict[str, Tensor]) -> dict[str, Tensor]:
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
