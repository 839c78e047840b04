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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load_file, load_model
from torch import Tensor, nn

from regard.errors import RegardError
from regard.files import atomic
from regard.settings.training import FALLING, direction
from regard.training.metrics import Record

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

    def latest(self, report: Callable[[str], None]) -> int | None:
        """Return the step of the newest undamaged checkpoint; report each damaged one."""
        self._recover()
        steps = self.steps()
        for step in reversed(steps):
            damage = self.damage(step)
            if damage is None:
                return step
            report(f"the checkpoint of step {step} is damaged ({damage}); trying the one before")
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


# The state of a run, and its result.


@dataclass
class LossWindow:
    """Sums over the good steps since the last line of metrics."""

    steps: int = 0
    total: float = 0.0
    count: float = 0.0
    length: float = 0.0  # gradient norm

    def add(self, total: float, count: float, length: float) -> None:
        self.steps, self.total, self.count = self.steps + 1, self.total + total, self.count + count
        self.length += length


@dataclass
class RunPlan:
    """State of `Budget` in a run with a time limit. Without a limit all fields are 0, as the step is enough."""

    last: float = 0.0  # planned last step; 0 before the plan is made
    position: float = 0.0  # of the next step, between 0 and `last`
    pace: float = 0.0  # seconds of a step
    timed: int = 0  # steps that were timed
    validation: float = 0.0  # seconds of the last validation


@dataclass
class RunState:
    """Everything that exact resume needs besides weights and optimizer state. All fields are plain JSON."""

    step: int = 0
    epoch: int = 0
    index: int = 0  # batches of the epoch that were used
    seconds: float = 0.0
    busy: float = 0.0  # seconds of training, without validation and saving
    waiting: float = 0.0  # of these, seconds of waiting for data
    items: int = 0  # counted by the loss: tokens, labels, ...
    skipped: int = 0
    bad_in_a_row: int = 0
    worse_in_a_row: int = 0  # validations since the best
    validated: int = -1  # step of the last validation
    best: dict[str, Any] | None = None  # {"step", "value", "scores"}
    history: list[Record] = field(default_factory=list)  # a record for each validation
    window: LossWindow = field(default_factory=LossWindow)
    plan: RunPlan = field(default_factory=RunPlan)

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> "RunState":
        return cls(**{**tree, "window": LossWindow(**tree["window"]), "plan": RunPlan(**tree["plan"])})


class Result(NamedTuple):
    """`stopped_by` names the limit that ended the run: max_steps, max_epochs, time_limit or patience."""

    step: int
    best: dict[str, Any] | None
    history: list[Record]
    seconds: float
    stopped_by: str
    waiting: float = 0.0  # share of the training time spent waiting for data


# Check whether a run may resume with a recipe: settings that influence the weights must not differ.

FREE = {
    *("about", "needs", "expected", "variants", "decoding", "data.test", "data.alignments", "data.cache"),
    *("data.zero_shot",),
    *(f"training.{name}" for name in ("max_steps", "max_epochs", "time_limit", "patience", "save_every", "keep")),
    *(f"training.{name}" for name in ("log_every", "looks", "tensorboard", "score_test", "device", "threads", "shard")),
}
# Some schedules fall until the end of the run, so its limits influence the weights.
ENDS = {"training.max_steps", "training.max_epochs", "training.time_limit"}


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return `training.learning_rate: 0.001 → 0.002`, one line for each setting that differs but must not."""
    before, after = _flat(old), _flat(new)
    schedule = after.get("training.schedule")
    found = []
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        if schedule in FALLING and name in ENDS:
            why = f"training.schedule={schedule} falls until then"
            found.append(f"{name}: {before.get(name)} → {after.get(name)} ({why})")
        elif not any(name == free or name.startswith(free + ".") for free in FREE):
            found.append(f"{name}: {before.get(name)} → {after.get(name)}")
    return found


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested sections to dotted names. Tuples and lists are equal here, as in JSON."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = list(value) if isinstance(value, tuple) else value
    if flat.get("training.mode") == "auto":
        flat["training.mode"] = direction(str(flat.get("training.metric")))
    return flat
