"""The form that users script against: exit codes, clean standard output, one JSON document."""

import dataclasses
import errno
import json
import os
import subprocess
import sys
import time
from functools import cache

import pytest
import yaml

from command_line import regard
from regard.errors import CallError, RegardError


def process(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "regard", *map(str, words)], capture_output=True, text=True, timeout=300, **options
    )


def test_help_lists_every_command_with_a_line():
    from regard.cli import cli

    shown = process("--help")
    assert shown.returncode == 0
    for name, command in cli.commands.items():
        line = next(line for line in shown.stdout.splitlines() if line.startswith(f"  {name} "))
        assert len(line.split()) >= 4, f"{name} has no help"
        assert not line.endswith("..."), f"the help of {name} is cut off"
        assert command.help


def test_version():
    import regard as package

    assert package.__version__ in process("--version").stdout


@pytest.mark.parametrize(
    ("said", "looks"), [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)]
)
def test_threads_wait_briefly_unless_the_user_says_how(said, looks, monkeypatch):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that it is as it was afterwards
        monkeypatch.delenv(name)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    regard("recipes")
    assert os.environ.get("GOMP_SPINCOUNT") == looks


def test_help_answers_before_torch_could_be_imported():
    def seconds(*command):
        start = time.perf_counter()
        subprocess.run([sys.executable, *command], capture_output=True, check=True)
        return time.perf_counter() - start

    tries = (seconds("-m", "regard", "--help") / seconds("-c", "import torch") for _ in range(3))
    assert any(ratio <= 0.5 for ratio in tries)  # some 0.15 on a machine that has nothing else to do


@cache
def decompositions():
    """How many torch itself knows of."""
    code = "import torch._decomp; print(len(torch._decomp.decomposition_table))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("first", ["torch._decomp", "torch._dynamo"])
def test_a_prediction_does_not_wait_for_what_only_compiling_needs_and_it_comes_when_it_is_asked_for(first):
    code = f"""
import sys
from regard.commands.quick_torch import quick_torch
quick_torch()
import regard.commands.predict, regard.commands.look
early = {{"torch._decomp", "torch._dynamo", "sympy", "scipy", "pandas", "matplotlib"}} & set(sys.modules)
import torch
torch.rand(3, generator=torch.Generator().manual_seed(1))  # as everything that is drawn at random
early |= {{"torch._decomp"}} & set(sys.modules)
assert not early, early
import {first}, torch._decomp
x, w, scale = torch.ones(2, 8), torch.zeros(4, 8, dtype=torch.int8), torch.ones(4)  # its shape is known in Python only
print(torch._weight_int8pack_mm(x.bfloat16().to("meta"), w.to("meta"), scale.bfloat16().to("meta")).shape)
print(torch.func.vmap(torch.nn.functional.mse_loss)(torch.ones(3, 2), torch.ones(3, 2)).shape)
print(len(torch._decomp.decomposition_table))
"""
    ours = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ours.stdout.split() == ["torch.Size([2,", "4])", "torch.Size([3])", decompositions()], ours.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian"], "did you mean 'train'?"),
        (["train", "translate-transformr", "-o", "x"], "did you mean 'translate-transformer'?"),
        (["train", "translate-transformer", "model.widht=3", "-o", "x"], "did you mean 'width'?"),
        (["train", "translate-transformer", "width", "-o", "x"], "not of the form key=value"),
        (["cost", "transfomer-base"], "did you mean 'transformer-base'?"),
        (["predict", "nowhere", "hello"], "nowhere"),
        (["evaluate", "nowhere"], "nowhere"),
        (["bench", "layrs"], "layers"),
    ],
)
def test_a_wrong_call_exits_with_2_and_says_what_would_work(words, said, tmp_path):
    done = regard(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == [], "a wrong call leaves nothing behind"


def test_doctor_says_what_is_missing_for_which_job_and_how_to_get_it(capsys):
    import torch

    from regard.commands.doctor import Extra, examine

    found = json.loads(regard("doctor", "--json").stdout)
    assert found["torch"] == torch.__version__
    assert found["processor"]["vector_units"] == torch.backends.cpu.get_cpu_capability()
    assert found["packages"]["numpy"]
    extras = {extra["name"]: extra for extra in found["extras"]}
    assert extras["train"]["packages"]["torch"]
    assert "dev" not in extras
    assert "digits-vit" in extras["digits"]["recipes"]
    assert extras["digits"]["jobs"] == ["classify"]
    health = examine()
    lacking = dataclasses.replace(health, extras=[Extra("image", {"pillow": None}, ["caption"], ["shapes-caption"])])
    said = "\n".join(lacking.lines())
    assert f"missing pillow for caption (shapes-caption): {sys.executable} -m pip install 'regard[image]'" in said
    said = "\n".join(dataclasses.replace(health, kernels="there is no C compiler").lines())
    assert "compiled kernels: missing, so torch alone is used, more slowly: there is no C compiler" in said


def test_doctor_knows_how_large_caches_are(tmp_path, monkeypatch):
    from regard.commands.doctor import examine

    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "features"))
    cache = tmp_path / "runs/mine/cache"
    cache.mkdir(parents=True)
    (cache / "tokens.bin").write_bytes(b"x" * 12_345)
    health = examine(tmp_path / "runs")
    assert health.caches == {str(cache): 12_345}
    assert "12.3 kB" in "\n".join(health.lines())


def test_recipes_say_what_to_begin_with():
    from regard.config import packaged_recipes, read
    from regard.jobs import BEGIN, JOBS

    shown = regard("recipes").stdout
    for data, name in BEGIN.items():
        assert any(line.split() == [*data.split(), *f"regard train {name} data.train=YOURS".split()]
                   for line in shown.splitlines())  # fmt: skip
    first = [read(name) for name in BEGIN.values()]
    assert {recipe.job for recipe in first} == set(JOBS), "every job has a recipe to begin with"
    for job, row in JOBS.items():
        kinds = set(row.input) if isinstance(row.input, dict) else set()  # two inputs at once are a tuple
        assert kinds <= {getattr(recipe.data, "kind", None) for recipe in first if recipe.job == job}
    assert all(name in shown for name in packaged_recipes())


def test_recipes_as_json():
    listed = json.loads(regard("recipes", "--json").stdout)
    assert {"translate-recurrent", "translate-transformer"} <= {recipe["name"] for recipe in listed}
    assert all(recipe["about"] for recipe in listed)


def test_schema_is_json():
    assert json.loads(regard("recipes", "--schema").stdout)["$defs"]


def test_show_config_is_the_resolved_recipe_with_help():
    shown = regard("train", "translate-transformer", "model.width=64", "--show-config")
    assert shown.returncode == 0
    assert yaml.safe_load(shown.stdout)["model"]["width"] == 64
    assert "# width of the vectors between layers" in shown.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    assert "_REGARD_COMPLETE" in regard("completion", shell).stdout


def test_completion_knows_commands_and_recipes(monkeypatch):
    import os

    def complete(words):
        env = {
            **os.environ,
            "_REGARD_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        return process(env=env).stdout

    assert "train" in complete("regard tra")
    assert "translate-recurrent" in complete("regard train translate-r")


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "nowhere", "-o", "none/scores.html"],
        ["predict", "nowhere", "a", "-o", "none/outputs.txt"],
        ["look", "nowhere", "a", "-o", "none/look.png"],
        ["index", "nowhere", ".", "-o", "none/index"],
        ["bench", "layers", "-o", "none/costs.png"],
    ],
    ids=lambda words: words[0],
)
def test_a_missing_folder_of_the_output_is_found_before_the_work(words, tmp_path):
    done = regard(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert f"there is no folder {tmp_path / 'none'}" in done.stderr


def test_a_run_cannot_live_in_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    done = regard("train", "translate-transformer", "-o", tmp_path / "file")
    assert done.returncode == 2
    assert "is a file" in done.stderr


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a.bin"), "the disk is full: a.bin", 1),
        (PermissionError(errno.EACCES, "Permission denied", "a.tsv"), "Permission denied: a.tsv", 1),
        (MemoryError(), "not enough memory", 1),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "not enough memory", 1),
        (KeyboardInterrupt(), "stopped", 130),
        (RegardError("it broke"), "it broke", 1),
        (CallError("a typo"), "a typo", 2),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
@pytest.mark.parametrize("debug", [False, True])
def test_what_the_machine_refuses_is_one_sentence(monkeypatch, capsys, error, said, code, debug):
    from regard import cli, config

    def fail():
        raise error

    monkeypatch.setattr(config, "schema", fail)
    monkeypatch.setattr(sys, "argv", ["regard", *(["--debug"] if debug else []), "recipes", "--schema"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    shown = capsys.readouterr().err
    assert ended.value.code == code
    assert shown.splitlines()[-1].startswith(f"regard: {said}")
    assert ("Traceback" in shown) == debug


def test_a_mistake_of_ours_is_shown_whole(monkeypatch):
    from regard import cli, config

    monkeypatch.setattr(config, "schema", lambda: 1 / 0)
    monkeypatch.setattr(sys, "argv", ["regard", "recipes", "--schema"])
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_a_closed_pipe_is_no_failure():
    command = f"{sys.executable} -m regard recipes --schema | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
