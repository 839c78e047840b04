"""`metrics.jsonl`: one JSON object a line, appended during the run; and TensorBoard where requested.

{"kind": "train", "step": 50, "epoch": 0.1, "loss": 4.2, "unit": "tokens", "items": 201345, ...}
{"kind": "validation", "step": 500, "epoch": 1, "scores": {"loss": 2.9, "bleu": 17.2}, "best": true, "sample": "..."}
"""

import json
import math
import os
from pathlib import Path
from typing import Any

from regard.errors import CallError, pip_install
from regard.files import atomic
from regard.files.lines import read_jsonl

Record = dict[str, Any]


def read_metrics(file: Path) -> list[Record]:
    """Return all records of a run, without a last line that a crash cut off."""
    return [record for _, record in read_jsonl(file) if record is not None] if file.exists() else []


class Metrics:
    """Writer of a run's records, resumed from `step`: later records are removed, as they will be written again."""

    def __init__(self, folder: Path, step: int, tensorboard: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "metrics.jsonl"
        kept = [record for record in read_metrics(file) if record["step"] <= step]
        atomic.write_text(file, "".join(_line(record) for record in kept))
        self._file = file.open("a", encoding="utf-8")
        self._board = _board(folder / "tensorboard", step) if tensorboard else None

    def write(self, record: Record) -> None:
        self._file.write(_line(record))
        self._file.flush()
        if self._board is not None:
            scores = record.get("scores") or {name: record[name] for name in ("loss", "learning_rate", "gradient")}
            for name, value in scores.items():
                self._board.add_scalar(f"{record['kind']}/{name}", value, record["step"])
            if record.get("sample"):
                self._board.add_text("sample", record["sample"], record["step"])

    def flush(self) -> None:
        """Wait until all lines are on the disk, so that no checkpoint is newer than the lines of its step."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self.flush()
        self._file.close()
        if self._board is not None:
            self._board.close()


def _line(record: Record) -> str:
    """Return a record as JSON; NaN becomes null, as JSON has no NaN."""
    return json.dumps(_finite(record), ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _board(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise CallError(f"training.tensorboard=true needs a package: {pip_install('regard[tensorboard]')}") from None
    return SummaryWriter(str(folder), purge_step=step + 1)
