"""A folder is trained by one trainer at a time, and one that was killed leaves no lock behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from regard.errors import CallError
from regard.training.lock import LOCK, lock_folder
from regard.training.parallel import Parallel

ALONE = Parallel(device=torch.device("cpu"))
HOLD = """
import sys, pathlib
from regard.training.lock import lock_folder
from regard.training.parallel import Parallel
with lock_folder(pathlib.Path(sys.argv[1]), Parallel()):
    print("held", flush=True)
    sys.stdin.read()
"""
WINDOWS = """
import errno, fcntl, sys, types
import torch  # which needs the real ones
def locking(handle, mode, count):  # as that of Windows: from the place of the file on, as many bytes
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, count, 0, 1)
    except BlockingIOError:
        raise PermissionError(errno.EACCES, "Permission denied") from None
sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
sys.modules["fcntl"] = None
import regard.training.lock
"""


@contextmanager
def held(folder: Path, first: str = "") -> Iterator[subprocess.Popen[str]]:
    """Another process holds the folder; it is killed at the end, as by kill -9."""
    command = [sys.executable, "-c", first + HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        try:
            yield other
        finally:
            other.kill()


def test_a_folder_that_is_trained_is_refused_until_its_trainer_is_dead(tmp_path: Path) -> None:
    with held(tmp_path) as other:
        sentence = rf"is being trained by process {other.pid} on .*, since 20.*: wait until it ends"
        with pytest.raises(CallError, match=sentence), lock_folder(tmp_path, ALONE):
            pass
    assert (tmp_path / LOCK).exists()  # of the dead; it binds nobody
    with lock_folder(tmp_path, ALONE):
        assert str(os.getpid()) in (tmp_path / LOCK).read_text()
    assert not (tmp_path / LOCK).exists()


@pytest.mark.slow
def test_a_system_without_fcntl_locks_by_msvcrt(tmp_path: Path) -> None:
    with held(tmp_path, WINDOWS) as other:
        second = [sys.executable, "-c", WINDOWS + HOLD, str(tmp_path)]
        done = subprocess.run(second, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert f"is being trained by process {other.pid} on" in done.stderr
        assert done.returncode != 0
    done = subprocess.run(second, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.stdout == "held\n", done.stderr
    assert not (tmp_path / LOCK).exists()


def test_two_in_one_process_are_two_trainers(tmp_path: Path) -> None:
    with (
        lock_folder(tmp_path, ALONE),
        pytest.raises(CallError, match=f"process {os.getpid()}"),
        lock_folder(tmp_path, ALONE),
    ):
        pass


def test_a_refused_call_leaves_no_empty_folder_behind(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="a typo"), lock_folder(tmp_path / "new", ALONE):
        raise CallError("a typo")
    assert not (tmp_path / "new").exists()
    with pytest.raises(CallError, match="a typo"), lock_folder(tmp_path, ALONE):
        raise CallError("a typo")
    assert tmp_path.exists()


def test_the_command_line_refuses_with_2(tmp_path: Path) -> None:
    with held(tmp_path):
        command = [sys.executable, "-m", "regard", "train", "translate-recurrent", "-o", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "is being trained by process" in done.stderr
    assert "Traceback" not in done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == [LOCK]
