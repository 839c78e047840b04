"""Exact resume: stopped anywhere, the run ends with the same bits as one that never was."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard.errors import RegardError
from regard.training.checkpoint import Checkpoint, Checkpoints
from training_example import train

SCRIPT = Path(__file__).with_name("training_example.py")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Bits depend on the number of threads; the script uses one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Path:
    """A run that was never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    train(folder)
    return folder


def state(folder: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """What the last checkpoint holds, apart from times."""
    place = sorted((folder / "state").glob("step-*"))[-1]
    run = json.loads((place / "run.json").read_text())["run"]
    for clock in ("seconds", "busy", "waiting"):
        del run[clock]
    for record in run["history"]:
        del record["seconds"]
    return run, load_file(place / "tensors.safetensors")


def metrics(folder: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {k: v for k, v in record.items() if k not in ("seconds", "items_per_second", "waiting")} for record in records
    ]


def assert_same_run(one: Path, other: Path) -> None:
    (run, tensors), (other_run, other_tensors) = state(one), state(other)
    assert run == other_run
    assert tensors.keys() == other_tensors.keys()
    for name, value in tensors.items():
        assert torch.equal(value.nan_to_num(), other_tensors[name].nan_to_num()), name
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    assert metrics(one) == metrics(other)


def run_script(folder: Path, *arguments: str) -> str:
    command = [sys.executable, str(SCRIPT), str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.slow
def test_killed_while_writing(tmp_path: Path, whole: Path) -> None:
    """Killed at the first write, in the midst of checkpoints, between files and rename, between state and weights."""
    said = run_script(tmp_path, "die=1,5,7,9,10,11,12,13,14,15,4,16,2,3")
    assert said.split() == ["died"] * 14
    assert_same_run(tmp_path, whole)


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path, whole: Path) -> None:
    assert "died" in run_script(tmp_path, "kills=12")
    assert_same_run(tmp_path, whole)


def test_resume_in_one_process_twice(tmp_path: Path, whole: Path) -> None:
    """At steps 6 and 12 there is a validation anyway, so ending there leaves no trace in the history."""
    train(tmp_path, max_steps=6)
    train(tmp_path, max_steps=12)
    train(tmp_path)
    assert_same_run(tmp_path, whole)


# ------------------------------------------------------------------------------------------------ damaged checkpoints
def damage_byte(place: Path) -> str:
    file = place / "tensors.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    return "tensors.safetensors has changed"


def damage_torn(place: Path) -> str:
    file = place / "tensors.safetensors"
    file.write_bytes(file.read_bytes()[:100])
    return "tensors.safetensors has changed"


def damage_missing(place: Path) -> str:
    (place / "tensors.safetensors").unlink()
    return "tensors.safetensors is missing"


def damage_json(place: Path) -> str:
    (place / "run.json").write_text("{")
    return "run.json has changed"


def damage_sums(place: Path) -> str:
    (place / "SHA256SUMS").write_bytes(b"\xff\x00nonsense")
    return "SHA256SUMS cannot be read"


def damage_no_sums(place: Path) -> str:
    (place / "SHA256SUMS").write_text("")
    return "SHA256SUMS does not list run.json"


@pytest.mark.parametrize("damage", [damage_byte, damage_torn, damage_missing, damage_json, damage_sums, damage_no_sums])
def test_damaged_checkpoint_is_told_and_the_one_before_used(tmp_path: Path, whole: Path, damage: Any) -> None:
    train(tmp_path, max_steps=12)
    what = damage(tmp_path / "state" / "step-00000012")
    _, _, messages = train(tmp_path)
    assert f"step 12 is damaged ({what}" in messages[0]
    assert "resumes from step 10" in messages[1]
    assert_same_run(tmp_path, whole)


def test_all_damaged_is_an_error_not_a_new_start(tmp_path: Path) -> None:
    train(tmp_path, max_steps=6, save_every=3)
    for place in (tmp_path / "state").glob("step-*"):
        damage_torn(place)
    with pytest.raises(RegardError, match=r"all checkpoints in .* are damaged"):
        train(tmp_path)


def test_keeps_the_last_two_and_no_scraps(tmp_path: Path) -> None:
    store = Checkpoints(tmp_path, keep=2)
    (tmp_path / "step-00000003.part").mkdir()  # left behind by a run that was killed
    for step in (1, 5, 10, 10):
        store.save(step, Checkpoint({"step": step}, {"weights": {"a": torch.arange(3.0)}}))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["step-00000005", "step-00000010"]
    assert store.load(10).run == {"step": 10}
    assert store.load(10).tensors["weights"]["a"].tolist() == [0, 1, 2]


def test_sums_are_those_of_sha256sum(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(1, Checkpoint({}, {"weights": {"a": torch.ones(2)}}))
    check = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path / "step-00000001", capture_output=True)
    assert check.returncode == 0
