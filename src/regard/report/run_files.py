"""Read a run from its files, also during training: new lines of `metrics.jsonl` are read once.

Nothing is written and no lock is taken, so training is not affected.
"""

import json
import os
import socket
from collections.abc import Container
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import yaml

from regard.errors import RegardError
from regard.look.history import FOLDER as LOOKS
from regard.look.svg import ReportPicture
from regard.report.charts import safe_markup
from regard.settings.recipe import CONFIG, SUMMARY
from regard.settings.training import seconds
from regard.training.lock import LOCK, holder
from regard.training.metrics import Record

METRICS, CHECK, MACHINE = "metrics.jsonl", "check.json", "machine.json"
PICTURES = "pictures.json"
State = Literal["training", "ended", "stopped"]


def runs_in(folder: Path) -> list[Path]:
    """Return the runs in a folder of runs (empty if the folder is itself a run)."""
    return [] if (folder / CONFIG).is_file() else sorted(one.parent for one in folder.glob(f"*/{CONFIG}"))


def unused_name(folder: Path, names: Container[str]) -> str:
    """Return the folder name, with a number appended if it is already used."""
    name, number = folder.resolve().name, 1
    while name in names:
        number += 1
        name = f"{folder.resolve().name}-{number}"
    return name


class RunFiles:
    def __init__(self, folder: Path, name: str = "") -> None:
        """`name` is the displayed name; by default that of the folder."""
        self.folder, self.name = folder, name or folder.resolve().name
        self._records: list[Record] = []
        self._read, self._inode = 0, -1  # bytes read, and inode of the file

    def records(self) -> list[Record]:
        """Return all records of `metrics.jsonl` so far. An incomplete last line is read next time."""
        try:
            with (self.folder / METRICS).open("rb") as file:
                found = os.fstat(file.fileno())
                if found.st_ino != self._inode or found.st_size < self._read:  # the run was resumed from a checkpoint
                    self._records, self._read, self._inode = [], 0, found.st_ino
                file.seek(self._read)
                whole, _, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        if whole:
            self._read += len(whole) + 1
            self._records += [one for line in whole.splitlines() if (one := _record(line)) is not None]
        return list(self._records)

    @cached_property
    def config(self) -> dict[str, Any]:
        """Return the recipe. It does not change during training."""
        if not (self.folder / CONFIG).exists():
            return {}
        try:
            tree = yaml.safe_load((self.folder / CONFIG).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise RegardError(f"{self.folder / CONFIG} cannot be read ({error})") from None
        return tree if isinstance(tree, dict) else {}

    @property
    def check(self) -> dict[str, Any]:
        return self._json(CHECK)

    @property
    def machine(self) -> dict[str, Any]:
        return self._json(MACHINE)

    @property
    def pictures(self) -> list[ReportPicture]:
        """Return the last pictures of the job: attention, forecasts, confusion, drawings."""
        found = self._json(PICTURES).get("pictures", [])
        try:
            return [ReportPicture(str(one["title"]), safe_markup(str(one["html"])), str(one["note"])) for one in found]
        except (TypeError, KeyError):
            return []

    @property
    def summary(self) -> dict[str, Any]:
        return self._json(SUMMARY)

    @property
    def state(self) -> State:
        """Return the state. A summary marks a finished run unless it was resumed; a killed run leaves its lock."""
        summary, metrics = _stat(self.folder / SUMMARY), _stat(self.folder / METRICS)
        if summary is not None and (metrics is None or summary.st_mtime_ns >= metrics.st_mtime_ns):
            return "ended"
        held = holder(self.folder / LOCK)
        if held is not None and (held.host != socket.gethostname() or _alive(held.process)):
            return "training"
        return "stopped"

    @property
    def version(self) -> str:
        """Return a value that changes with the shown content."""
        files = [self.folder / name for name in (METRICS, SUMMARY, CHECK, MACHINE, PICTURES, LOCK)]
        sizes = [f"{found.st_size}.{found.st_mtime_ns}" for file in files if (found := _stat(file)) is not None]
        return "-".join([self.state, str(self.validations), *sizes])

    @property
    def validations(self) -> int:
        """Return the validations with stored attention."""
        return sum(1 for _ in (self.folder / LOOKS / "0").glob("*.npz"))

    @property
    def inputs_watched(self) -> int:
        """Return the validation inputs with stored attention, numbered from 0."""
        return sum(1 for one in (self.folder / LOOKS).glob("*") if one.name.isdecimal())

    def share_done(self) -> float | None:
        """Return the finished share, by the limit that ends first; None without limits."""
        training, last = self.config.get("training", {}), next(reversed(self.records()), None)
        if last is None:
            return None
        limits = {"step": training.get("max_steps"), "epoch": training.get("max_epochs")}
        limits["seconds"] = None if training.get("time_limit") is None else seconds(training["time_limit"])
        shares = [last[name] / limit for name, limit in limits.items() if limit]
        return min(1.0, max(shares)) if shares else None

    def _json(self, name: str) -> dict[str, Any]:
        """Read JSON; missing or incomplete files give nothing."""
        try:
            tree = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return tree if isinstance(tree, dict) else {}


def _record(line: bytes) -> Record | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("kind") in ("train", "validation") else None


def _stat(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except OSError:
        return None


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
