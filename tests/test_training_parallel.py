"""Two processes compute what one does, and a run may change the number of its processes on the way.

The example has a batch of one row, of which the second process gets nothing.
"""

import os
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import regard
from recipe_runs import small_corpora, train_without_dropout
from regard import config
from regard.errors import CallError, RegardError
from regard.job import make_job
from regard.training import parallel
from regard.training.metrics import read_metrics
from regard.training.parallel import Parallel, pick_device, processes
from training_example import new_model, train

SCRIPT = Path(__file__).with_name("training_example.py")
RECIPES = Path(__file__).with_name("recipe_runs.py")
TASKS = (
    "tags", "texts-classify", "answer-transformer", "translate-recurrent", "lag", "series-classify", "digits-cnn",
    "shapes-caption",
)  # fmt: skip


def run_two(script: Path, *arguments: str, launch: tuple[str, ...] = (), seconds: float = 120) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *launch]
    done = subprocess.run([*torchrun, str(script), *arguments], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stderr


def losses(folder: Path) -> list[float]:
    """Of all steps and validations."""
    records = read_metrics(folder / "metrics.jsonl")
    return [record["loss"] if record["kind"] == "train" else record["scores"]["loss"] for record in records]


def assert_close_runs(one: Path, other: Path) -> None:
    mine, theirs = (load_file(folder / "model.safetensors") for folder in (one, other))
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        torch.testing.assert_close(value, theirs[name], rtol=1e-5, atol=1e-5)
    assert losses(one) == pytest.approx(losses(other), rel=1e-5)


@pytest.mark.slow
def test_two_processes_then_one(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    train(one, dropout=0, max_steps=12)
    run_two(SCRIPT, str(other), "dropout=0", "max_steps=12")
    assert_close_runs(one, other)
    train(one, dropout=0)
    train(other, dropout=0)
    assert_close_runs(one, other)


@pytest.mark.slow
def test_one_process_then_two_with_shared_out_weights(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    train(one, dropout=0, accumulate=2)
    train(other, dropout=0, accumulate=2, max_steps=6)
    run_two(SCRIPT, str(other), "dropout=0", "accumulate=2", "shard=1")
    assert_close_runs(one, other)


@pytest.mark.parametrize(("recipe", "data", "same"), [
    ("translate-transformer", {"train": "examples/pairs.tsv"}, True),
    ("texts-classify", {}, True),
    ("encode-transformer", {"train": "examples/pairs.tsv"}, False),  # pairs are contrasted with their own share
    ("shapes-match", {}, False),
])  # fmt: skip
def test_shares_of_a_batch_have_the_loss_of_the_whole(
    recipe: str, data: dict[str, str], same: bool, tmp_path: Path
) -> None:
    """docs/training.md says so of all jobs but `encode` and `match`."""
    with small_corpora():
        job = make_job(config.read(recipe, {"data": data}))
        job.prepare(tmp_path)
        model, batches = job.build().eval(), job.batches()
        whole = model(next(iter(batches.epoch(0))))
        shares = [model(next(iter(batches.epoch(0, 0, rank, 2)))) for rank in (0, 1)]
    assert sum(share.count for share in shares) == whole.count
    total = sum(share.total.item() for share in shares)
    assert (total == pytest.approx(whole.total.item(), rel=1e-4)) is same


@pytest.mark.slow
def test_each_task_has_the_losses_of_one_process_in_two(tmp_path: Path) -> None:
    """One launch trains the recipes one after the other. Some of their batches have a single row: then one process has
    no share of it. `encode` contrasts the pairs of each process's own share."""
    one, two = tmp_path / "one", tmp_path / "two"
    run_two(RECIPES, str(two), *TASKS, "encode-transformer", seconds=600)
    train_without_dropout(one, TASKS)
    for name in TASKS:
        assert len(losses(one / name)) == 5
        assert losses(two / name) == pytest.approx(losses(one / name), rel=1e-5), name
    with small_corpora():
        job = make_job(regard.load(two / "encode-transformer").recipe)
        job.prepare(tmp_path / "cache")
        model, batches = job.build(), job.batches()
        parts = [model(next(batches.epoch(0, rank=rank, world=2))) for rank in (0, 1)]
    expected = sum(part.total.item() for part in parts) / sum(part.count.item() for part in parts)
    assert losses(two / "encode-transformer")[0] == pytest.approx(expected, rel=1e-5)


# -------------------------------------------------------------------------------------------------- one process alone
def test_alone_all_agreements_are_trivial() -> None:
    with processes("cpu") as alone:
        assert (alone.rank, alone.world, alone.main, alone.device) == (0, 1, True, torch.device("cpu"))
        assert alone.largest([3, 0.5]) == [3, 0.5]
        assert alone.share({"a": 1}) == {"a": 1}
        with alone.main_first():
            pass


def test_random_numbers_depend_on_seed_step_and_process() -> None:
    def draw(seed: int, step: int, rank: int) -> float:
        Parallel(rank, 3, torch.device("cpu")).seed(seed, step)
        return torch.rand(()).item()

    assert draw(1, 2, 0) == draw(1, 2, 0)
    assert len({draw(seed, step, rank) for seed in (1, 2, 11) for step in (1, 2, 12) for rank in range(3)}) == 27


def test_tied_weights_are_saved_once_and_load_into_both() -> None:
    alone, model, other = Parallel(device=torch.device("cpu")), new_model(), new_model()
    weights = {name: value + 1 for name, value in alone.weights(model).items()}
    assert "embedding.weight" in weights
    assert "output.weight" not in weights
    alone.load(other, weights)
    torch.testing.assert_close(other.output.weight, model.embedding.weight + 1)


def test_weights_of_another_model_are_refused() -> None:
    alone = Parallel(device=torch.device("cpu"))
    with pytest.raises(CallError, match=r"do not fit this model: norm\.weight \(14,\)"):
        alone.load(new_model(), {"norm.weight": torch.ones(14)})


def test_unknown_device_is_the_callers_mistake() -> None:
    with pytest.raises(CallError, match=r"training\.device='gpu0'"):
        pick_device("gpu0")


# ------------------------------------------------------------------------------------------------ joining and waiting
@pytest.mark.slow
def test_processes_that_are_started_again_find_each_other(tmp_path: Path) -> None:
    """torchrun keeps the addresses of the dead: without a place of its own, the third attempt would call them."""
    run_two(SCRIPT, str(tmp_path), "dropout=0", "max_steps=6", "attempts=2", launch=("--max-restarts", "2"))
    assert read_metrics(tmp_path / "metrics.jsonl")[-1]["step"] == 6


RAISING = """
import sys
from regard.errors import CallError
from regard.training.parallel import processes
with processes("cpu") as parallel:
    for error in (CallError("no such file: x"), ZeroDivisionError("by zero")):
        try:
            with parallel.main_first():
                if parallel.main:
                    raise error
        except Exception as found:
            print(type(found).__name__, found, flush=True)
    sys.stdin.read()  # process 0 lives on, as in a notebook
"""


@pytest.mark.slow
def test_an_error_of_the_first_process_ends_the_others_too() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    addresses = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", RAISING], env={**os.environ, **addresses, "RANK": rank},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for rank in ("0", "1")
    ]  # fmt: skip
    try:
        first, second = ([one.stdout.readline() for _ in range(2)] for one in both if one.stdout)
        assert first == ["CallError no such file: x\n", "ZeroDivisionError by zero\n"]
        assert second == [
            "CallError no such file: x\n",
            "RegardError process 0 ended with ZeroDivisionError: by zero\n",
        ]
    finally:
        for one in both:
            one.kill()
            one.communicate()


def test_a_process_that_meets_nobody_says_so_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "TOGETHER", timedelta(seconds=1))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(RegardError, match="process 0 of 2 waited 1 s and did not meet the others"), processes("cpu"):
        pass
