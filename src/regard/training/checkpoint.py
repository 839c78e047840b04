"""Crash-safe checkpoints: written to a temporary place, flushed to the disk, then renamed into place (`atomic`).

    RUN/state/step-00000500/   run.json  tensors.safetensors  SHA256SUMS

A rename is atomic, so a checkpoint is complete or absent, whenever the process dies. `SHA256SUMS` (also for
`sha256sum -c`) detects files that were damaged later; the previous checkpoint is used then. Nothing in a checkpoint is
executed.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, load_model
from torch import Tensor, nn

from regard.errors import RegardError
from regard.files import atomic

ASIDE = ".old.part"
RUN, TENSORS, SUMS = "run.json", "tensors.safetensors", "SHA256SUMS"
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    run: dict[str, Any]
    tensors: dict[str, Tensors]  # by part (weights, optimizer, ...), then by name; in the file, part/name


class Checkpoints:
    """The checkpoints of one run; the last `keep` are kept."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, oldest first."""
        names = [entry.name for entry in self.folder.iterdir()] if self.folder.is_dir() else []
        return sorted(int(match[1]) for name in names if (match := re.fullmatch(r"step-(\d+)", name)))

    def save(self, step: int, checkpoint: Checkpoint) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._recover()
        self._remove(entry for entry in self.folder.iterdir() if entry.name.endswith(".part"))
        place = self._place(step)
        flat = {f"{kind}/{name}": value for kind, named in checkpoint.tensors.items() for name, value in named.items()}

        def fill(part: Path) -> None:
            atomic.save_tensors(part / TENSORS, flat)
            (part / RUN).write_text(json.dumps(checkpoint.run, ensure_ascii=False), encoding="utf-8")
            sums = "".join(f"{_sha256(file)}  {file.name}\n" for file in sorted(part.iterdir()))
            (part / SUMS).write_text(sums, encoding="utf-8")

        atomic.write_folder(place, fill)  # replaces a damaged one, or one of the same step before its validation
        steps = self.steps()
        self._remove([self._place(old) for old in steps[: -self.keep]])

    def latest(self, say: Callable[[str], None]) -> int | None:
        """Return the step of the newest undamaged checkpoint; report each damaged one."""
        self._recover()
        steps = self.steps()
        for step in reversed(steps):
            damage = self.damage(step)
            if damage is None:
                return step
            say(f"the checkpoint of step {step} is damaged ({damage}); trying the one before")
        if steps:
            raise RegardError(
                f"all checkpoints in {self.folder} are damaged; remove {self.folder.parent} to train from the start"
            )
        return None

    def damage(self, step: int) -> str | None:
        """Return what is wrong with a checkpoint, or None."""
        place = self._place(step)
        try:
            lines = (place / SUMS).read_text(encoding="utf-8").splitlines()
            sums = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
            if sums.keys() != {RUN, TENSORS}:
                return f"{SUMS} does not list {RUN} and {TENSORS}"
            for name, digest in sums.items():
                if _sha256(place / name) != digest:
                    return f"{name} has changed since it was written"
        except FileNotFoundError as error:
            return f"{Path(error.filename).name} is missing"
        except (OSError, ValueError) as error:
            return f"{SUMS} cannot be read: {error}"
        return None

    def load(self, step: int) -> Checkpoint:
        place = self._place(step)
        try:
            tensors: dict[str, Tensors] = {}
            for name, value in load_file(place / TENSORS).items():
                kind, _, rest = name.partition("/")
                tensors.setdefault(kind, {})[rest] = value
            return Checkpoint(json.loads((place / RUN).read_text(encoding="utf-8")), tensors)
        except (OSError, ValueError, SafetensorError) as error:
            raise RegardError(f"the checkpoint {place} cannot be read: {error}") from error

    def _recover(self) -> None:
        """Restore the checkpoint that an interrupted save of the same step had moved away."""
        for aside in self.folder.glob(f"*{ASIDE}"):
            atomic.recover(aside.with_name(aside.name.removesuffix(ASIDE)))

    def _place(self, step: int) -> Path:
        return self.folder / f"step-{step:08}"

    @staticmethod
    def _remove(places: Any) -> None:
        for place in list(places):
            shutil.rmtree(place, ignore_errors=True)


def write_weights(weights: Tensors, file: Path) -> None:
    """Write `model.safetensors` atomically: readers find the old file or the new one."""
    atomic.write_tensors(file, weights, {"format": "pt"})


def read_weights(model: nn.Module, file: Path) -> None:
    """Load weights from a file into a model, including weights that layers share."""
    try:
        load_model(model, file)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise RegardError(f"{file} does not hold the weights of this model: {error}") from None
    refuse_what_is_no_number(dict(model.named_parameters()), file)


def refuse_what_is_no_number(weights: Tensors, file: Path) -> None:
    """Raise if a weight is NaN or infinite: the model's output would be meaningless."""
    bad = [name for name, value in weights.items() if value.is_floating_point() and not value.isfinite().all()]
    if bad:
        more = f" and {len(bad) - 1} more weights" if len(bad) > 1 else ""
        raise RegardError(f"{file} is damaged: {bad[0]}{more} contain NaN or infinity")


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
