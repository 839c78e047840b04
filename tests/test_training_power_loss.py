"""A checkpoint is written by a process that dies, or whose disk fails, or that loses power, at every step of it.

As SQLite tests its own: the n-th time that a file is opened for writing, synced, renamed or removed is the last, for
every n. A power loss, on top, takes half of every file that was not synced, and, in one variant, the renames whose
folder was not. After each, the run goes on from the old state or the new one.
"""

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.training.checkpoint import Checkpoint, Checkpoints

EVENTS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir"}
WRITING = os.O_WRONLY | os.O_RDWR


def checkpoint(number: int) -> Checkpoint:
    return Checkpoint({"number": number}, {"weights": {"a": torch.full((3, 5), float(number))}})


def number_in(store: Checkpoints) -> int | None:
    """Which checkpoint a run would go on from; None is none."""
    step = store.latest(lambda message: None)
    if step is None:
        return None
    found = store.load(step)
    assert (found.tensors["weights"]["a"] == found.run["number"]).all()
    return found.run["number"]


def run_until(count: int, fails: bool, act: Callable[[], None]) -> tuple[bool, list[str]]:
    """Let a process do it, up to event number `count`. Did it live through it, and what did it sync and rename?"""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        events = 0

        def happens() -> None:
            nonlocal events
            events += 1
            if events == count:
                if fails:
                    raise OSError(errno.ENOSPC, "No space left on device")
                os.kill(os.getpid(), signal.SIGKILL)

        def listen(event: str, arguments: tuple[Any, ...]) -> None:
            if event in EVENTS or (event == "open" and arguments[2] & WRITING):
                happens()
            if event == "os.rename":
                os.write(writing, f"rename\t{os.fspath(arguments[0])}\t{os.fspath(arguments[1])}\n".encode())

        def sync(handle: int, real: Callable[[int], None] = os.fsync) -> None:
            happens()
            real(handle)
            os.write(writing, f"sync\t{os.fstat(handle).st_ino}\n".encode())

        os.fsync = sync
        sys.addaudithook(listen)
        try:
            act()
        finally:
            os._exit(0 if events < count else 1)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as file:
        log = file.read().splitlines()
    _, status = os.waitpid(child, 0)
    return status == 0, log


def lose_power(folder: Path, before: set[int], log: list[str], renames: bool) -> None:
    """What was not synced is gone by half, and, if `renames`, those of unsynced folders as well."""
    synced = before | {int(line.split("\t")[1]) for line in log if line.startswith("sync")}
    if renames:
        for place, line in reversed(list(enumerate(log))):
            kind, *names = line.split("\t")
            if kind == "rename":
                old, new = map(Path, names)
                if f"sync\t{new.parent.stat().st_ino}" not in log[place:] and new.exists() and not old.exists():
                    new.rename(old)
    for file in folder.rglob("*"):
        if file.is_file() and file.stat().st_ino not in synced:
            os.truncate(file, file.stat().st_size // 2)


@pytest.mark.parametrize("how", ["killed", "disk full", "power lost", "power and renames lost"])
@pytest.mark.parametrize(("steps", "keep"), [((7,), 1), ((7, 9), 1), ((7, 9), 2), ((7, 7), 1), ((5, 7, 7), 2)])
def test_old_or_new_but_never_neither(tmp_path: Path, how: str, steps: tuple[int, ...], keep: int) -> None:
    *earlier, last = steps
    count, lived = 0, False
    while not lived:
        count += 1
        folder = tmp_path / str(count)
        store = Checkpoints(folder, keep)
        for number, step in enumerate(earlier):
            store.save(step, checkpoint(number))
        old, new = len(earlier) - 1 if earlier else None, len(earlier)
        assert number_in(store) == old
        before = {path.stat().st_ino for path in folder.rglob("*")} if folder.exists() else set()
        lived, log = run_until(count, how == "disk full", partial(store.save, last, checkpoint(new)))
        if how.startswith("power"):
            lose_power(folder, before, log, renames="renames" in how)
        assert number_in(store) in ((new,) if lived else (old, new)), f"after event {count}"
        store.save(last + 1, checkpoint(new + 1))
        assert number_in(store) == new + 1
        assert not list(folder.glob("*.part"))
        shutil.rmtree(folder)
    assert count > 10, "the events were not seen"
