"""`regard WORDS` without a process of its own, which would import torch anew: the same entry point, what it says, and
the exit code."""

import gc
import io
import sys
from contextlib import chdir, nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest

from regard.cli import main


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def regard(*words: object, cwd: Path | None = None, input: str = "") -> Done:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, chdir(cwd) if cwd else nullcontext():
        patch.setattr(sys, "argv", ["regard", *map(str, words)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(input.encode()), encoding="utf-8"))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setattr(gc, "freeze", lambda: None)  # this process goes on
        with pytest.raises(SystemExit) as ended:
            main()
    assert isinstance(ended.value.code, int)
    return Done(ended.value.code, *(one.buffer.getvalue().decode() for one in (out, err)))
