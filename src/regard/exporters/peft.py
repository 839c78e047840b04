"""Export of adapters for the library `peft`: a folder of transformers with the frozen weights, and the adapters in it.

    W' = W + (α/r) B A        theirs: W'_i = W_i + (α/r) B_i A,   B = [B_1; B_2; …]

If one map of ours is several of theirs (queries, keys and values), all share A, and each has its rows of B. Another
order of features permutes the rows of B and the columns of A. W comes from the run that training started from, if it
still exists; else it is W' minus the adapters, with a small rounding error.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file
from torch import Tensor

from regard.api import Run
from regard.errors import RegardError
from regard.exporters.base import Comparison, ExportPlan, ExportRequest, Format, RefusalError
from regard.exporters.hf.format import HuggingFace
from regard.exporters.hf.plan import ADAPTER, FolderPlan, write_json
from regard.files import atomic
from regard.pretrained.weights import WeightMap
from regard.training.initial_weights import ADAPTERS, FOLDER, KEY, SETTINGS

CLOSE = 1e-5  # largest difference between the initial weights and W' minus the adapters


class Peft(Format):
    name: ClassVar[str] = "peft"
    runs: ClassVar[tuple[str, ...]] = ("transformers", "peft")

    def plan(self, request: ExportRequest) -> ExportPlan:
        adapters = Adapters.of(request.run)
        plan = HuggingFace().plan(request)
        assert isinstance(plan, FolderPlan)
        return AdapterPlan(plan, adapters)


class Adapters:
    """Matrices A and B of each linear map of a run, by the map's name."""

    def __init__(self, settings: Mapping[str, Any], pairs: Mapping[str, tuple[Tensor, Tensor]]) -> None:
        self.settings, self.pairs = settings, pairs
        self.scale = settings["lora_alpha"] / settings["r"]

    @classmethod
    def of(cls, run: Run) -> "Adapters":
        folder = run.folder / FOLDER
        if run.recipe.training.lora is None:
            raise RefusalError("the run was trained without adapters (training.lora)")
        try:
            settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
            tensors = load_file(folder / ADAPTERS)
        except (OSError, ValueError) as error:
            raise RegardError(f"{folder}: the adapters of the run cannot be read ({error})") from None
        names = settings["target_modules"]
        return cls(settings, {name: (tensors[KEY.format(name, "A")], tensors[KEY.format(name, "B")]) for name in names})

    def base(self, run: Run) -> dict[str, Tensor]:
        """Return the frozen weights."""
        state, start = run.model.state_dict(), _start(run)
        found = {}
        for name, (a, b) in self.pairs.items():
            weight = state[f"{name}.weight"] - self.scale * (b @ a)
            own = start.get(f"{name}.weight")
            same = own is not None and own.shape == weight.shape and torch.allclose(own, weight, atol=CLOSE)
            found[f"{name}.weight"] = own if own is not None and same else weight
        return found


def _start(run: Run) -> dict[str, Tensor]:
    start = run.recipe.start
    file = None if start is None else Path(start.run) / "model.safetensors"
    return load_file(file) if file is not None and file.is_file() else {}


class AdapterPlan(ExportPlan):
    library, tags = "peft", ("lora",)

    def __init__(self, plan: FolderPlan, adapters: Adapters) -> None:
        self.plan, self.adapters = plan, adapters
        self.notes = plan.notes
        maps = {one.ours.removesuffix(".weight"): one for one in plan.maps() if one.ours.endswith(".weight")}
        missing = [name for name in adapters.pairs if name not in maps]
        if missing:
            raise RefusalError(f"its layout has no separate map for the adapter of {', '.join(missing)}")
        self.maps = {name: maps[name] for name in adapters.pairs}
        self.how = (
            f"from peft import PeftModel\nfrom transformers import {plan.auto}\n"
            f'model = PeftModel.from_pretrained({plan.auto}.from_pretrained(FOLDER), "FOLDER/{ADAPTER}")'
        )

    def write(self, folder: Path) -> None:
        self.plan.instead = self.adapters.base(self.plan.run)
        self.plan.write(folder)
        found: dict[str, Tensor] = {}
        for name, (a, b) in self.adapters.pairs.items():
            found |= split(self.maps[name], a, b)
        (folder / ADAPTER).mkdir()
        names = sorted({theirs.removesuffix(".weight") for one in self.maps.values() for theirs in one.theirs})
        about = {
            **self.adapters.settings, "base_model_name_or_path": "..", "target_modules": names,
            "fan_in_fan_out": any(one.turned for one in self.maps.values()),
        }  # fmt: skip
        write_json(folder / ADAPTER / SETTINGS, about)
        atomic.save_tensors(folder / ADAPTER / ADAPTERS, found, {"format": "pt"})

    def compare(self, folder: Path, inputs: Sequence[Any]) -> Iterator[Comparison]:
        return self.plan.compare(folder, inputs)


def split(one: WeightMap, a: Tensor, b: Tensor) -> dict[str, Tensor]:
    """Split the adapter of one map into those of the corresponding maps of peft."""
    a = a if one.columns is None else a[:, one.columns.argsort()]
    b = b if one.rows is None else b[one.rows.argsort()]
    sizes = list(one.sizes) or [len(b) // len(one.theirs)] * len(one.theirs)
    found: dict[str, Tensor] = {}
    for name, part in zip(one.theirs, b.split(sizes), strict=True):
        map = name.removesuffix(".weight")
        found |= {KEY.format(map, "A"): a.clone(), KEY.format(map, "B"): part.contiguous()}
    return found
