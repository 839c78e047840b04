"""train, predict, compare and verify, on a small file, through the command line."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import regard
from command_line import regard as cli
from doc_commands import ROOT
from recipe_runs import small_corpora
from regard import config
from regard.api import Run
from regard.cli import cli as command_line
from regard.commands.compare import Comparison, ComparisonRow, grid, shared_by
from regard.commands.parse_inputs import JsonArray
from regard.commands.train_data import run_folder
from regard.detect.begin import is_data
from regard.errors import CallError, RegardError
from regard.exporters import base
from regard.files.atomic import ResumableFile
from regard.job import make_job
from regard.work import Workers, dealt
from test_translate import process, recipe, write_pairs

HEAVY = [
    *("matplotlib", "pandas", "rapidfuzz", "rich", "sacrebleu", "scipy", "sklearn", "sympy", "transformers"),
    *("torch._dynamo", "torch.distributed.fsdp", "regard.training.loop"),
]
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("commands")
    return regard.train(recipe(folder, "recurrent", max_steps=4, validate_every=4), output=folder / "run")


# --------------------------------------------------------------------------------------------------------------- train
def test_a_training_ends_with_why_how_good_where_and_commands_that_work(tmp_path, monkeypatch, capsys):
    file = recipe(tmp_path, "recurrent", max_steps=3, validate_every=3)
    done = cli("train", file, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    ended = next(line for line in said if "ended by" in line)
    run = regard.load(tmp_path / "runs/recipe")
    best = run.summary()["best"]["value"]
    for part in ("3 steps", "training.max_steps=3", f"loss {best:.4g} at step 3", "runs/recipe"):
        assert part in ended
    commands = [shlex.split(line) for line in said[said.index("next:") + 1 :]]
    assert [words[1] for words in commands] == ["predict", "look", "evaluate"]
    monkeypatch.chdir(tmp_path)
    for words in commands:
        command_line.main(words[1:], standalone_mode=False)
        assert capsys.readouterr().out
    alone = Run(
        run.folder, changed := config.apply_overrides(run.recipe, ["data.test=null"], {}, ""), make_job(changed)
    )
    assert "evaluate" not in alone.closing_words()  # there is nothing to score it on
    card = (tmp_path / "runs/recipe/README.md").read_text(encoding="utf-8")
    assert all(shutil.which(words[0]) for words in commands)  # also where no shell would find `regard` by its name
    assert all("regard " + line.split("regard ", 1)[1] in card for line in said[said.index("next:") + 1 :])


@pytest.mark.slow
def test_the_demo_tells_what_it_does_and_ends_with_commands_that_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(base, "MOST", 3)  # inputs that prove an export
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    with small_corpora():
        command_line.main(["demo"], standalone_mode=False)
    out, told = capsys.readouterr()
    assert "\n    → " in told  # a translation, as training goes on
    assert out.index("1 of 3") < out.index("2 of 3") < out.index("We are eating bread.") < out.index("Next:")
    commands = [shlex.split(line) for line in out[out.index("Next:") :].splitlines()[1:]]
    assert [words[1] for words in commands] == ["predict", "look", "train"]
    assert all(shutil.which(words[0]) for words in commands)
    for words in commands[:2]:
        command_line.main(words[1:], standalone_mode=False)
    assert is_data(commands[2][2])


def test_without_a_folder_a_run_lives_beside_others(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    assert run_folder("mine.yaml", run.recipe, said.append) == Path("runs/mine")
    shutil.copytree(run.folder, "runs/mine")
    assert run_folder("mine.yaml", run.recipe, said.append) == Path("runs/mine"), "it goes on"
    assert said == []
    wider = config.build(config.override(config.as_tree(run.recipe), ["model.width=24"]))
    assert run_folder("mine.yaml", wider, said.append) == Path("runs/mine-2")
    assert "runs/mine has another run: using runs/mine-2" in said[0]


def test_a_model_of_ones_own_data_is_not_called_after_that_of_the_recipe(tmp_path, capsys):
    pairs = write_pairs(tmp_path / "pairs.tsv")
    run = regard.train(
        "translate-recurrent", data=pairs, output=tmp_path / "run", model={"width": 16}, training={"max_steps": 1}
    )
    card = (tmp_path / "run/README.md").read_text(encoding="utf-8")
    assert "Spanish" not in card
    assert str(pairs) in card
    assert "evaluate" not in card, "there is no test data"
    with pytest.raises(CallError, match="no test data"):
        run.evaluate()


# ------------------------------------------------------------------------------------------------------------- predict
def test_a_prediction_loads_nothing_that_it_does_not_need(run):
    code = (
        "import sys; from regard.cli import cli; cli.main(sys.argv[1:], standalone_mode=False);"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "predict", run.folder, "one red cat"], capture_output=True, text=True, env=ENV
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_outputs_come_while_inputs_are_still_written(run):
    """So memory does not grow with the number of lines, and nobody waits for the last."""
    command = [sys.executable, "-m", "regard", "predict", str(run.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENV) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("one red cat\n" * 16)
        process.stdin.flush()
        first = [process.stdout.readline() for _ in range(16)]
        process.stdin.write("two\n")
        process.stdin.close()
        rest = process.stdout.read().splitlines()
    assert len(set(first)) == 1
    assert len(rest) == 1


def test_a_file_of_predictions_that_was_killed_goes_on_where_it_stopped(run, tmp_path):
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("".join(f"{word} cat dog blue\n" for word in ("one", "two", "three", "red") for _ in range(300)))
    words = ["predict", run.folder, "--input", source, "-o", output, "decoding.beam=4"]
    process = subprocess.Popen([sys.executable, "-m", "regard", *map(str, words)], env=ENV, stderr=subprocess.PIPE)
    state = tmp_path / "out.txt.part.json"
    deadline = time.monotonic() + 120
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = json.loads(state.read_text())["inputs"]
    assert 0 < done < 1200
    assert not output.exists(), "it is there as a whole or not at all"
    with (tmp_path / "out.txt.part").open("a") as part:
        part.write("half a li")
    again = cli(*words)
    assert again.returncode == 0, again.stderr
    assert f"{done:,} inputs are done" in again.stderr
    whole = run.predict(source.read_text().splitlines(), beam=4)
    assert output.read_text().splitlines() == [prediction.text for prediction in whole]
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith("out")] == ["out.txt"]


def test_a_growing_file_goes_on_with_its_own_work_only(tmp_path):
    file = tmp_path / "out.txt"
    first = ResumableFile(file, {"beam": 4})
    first.write("a\nb\n", 2)
    first.leave()
    again = ResumableFile(file, {"beam": 4})
    assert again.done == 2
    again.leave()
    other = ResumableFile(file, {"beam": 5})
    assert other.done == 0
    other.write("c\n", 1)
    other.finish()
    assert file.read_text() == "c\n"
    assert ResumableFile(file, {"beam": 5}).done == 0, "a file that is finished is made anew"


def test_a_json_document_is_one_however_many_pieces_it_has(run, tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("one cat\n" * 40)
    done = cli("predict", run.folder, "--input", source, "--json")
    assert len(json.loads(done.stdout)) == 40
    assert JsonArray().end(empty=True) == "[]\n"


def test_workers_share_out_a_file_and_write_the_same(run, tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{line}\n" for line in ["ein hund", "", "zwei rote katzen", "drei"] * 20))
    written = []
    for workers in (1, 3):
        output = tmp_path / f"{workers}.txt"
        done = cli("predict", run.folder, "--input", source, "-o", output, "--workers", workers, "--scores")
        assert done.returncode == 0, done.stderr
        written.append(output.read_text())
    assert written[0] == written[1]
    assert len(written[0].splitlines()) == 80
    lines = source.read_text().splitlines()
    assert run.predict(lines, workers=2) == run.predict(lines)
    with pytest.raises(CallError, match=r"workers=2: sampling depends on all inputs.*decoding\.sample=false"):
        run.predict(lines, workers=2, sample=True)
    with pytest.raises(CallError, match="workers=0 must be at least 1"):
        run.predict(lines, workers=0)


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forks")
def test_what_goes_wrong_in_a_worker_is_told():
    def work(inputs):
        if "end" in inputs:
            os._exit(7)
        if "wrong" in inputs:
            raise CallError("the input is wrong")
        return [os.getpid() for _ in inputs]

    with Workers(work, 2) as workers:
        first, second, third = workers(["longest", "b", "c"])
        assert len({first, second, os.getpid()}) == 3
        assert second == third
        with pytest.raises(CallError, match="the input is wrong"):
            workers(["a", "wrong"])
    with pytest.raises(RegardError, match=r"exit code 7.*--workers 1"), Workers(work, 2) as workers:
        workers(["a", "end"])


@given(sizes=st.lists(st.integers(0, 50), max_size=60), count=st.integers(2, 4))
def test_workers_have_about_as_much_to_do_each(sizes, count):
    shares = dealt(sizes, count)
    assert sorted(number for share in shares for number in share) == list(range(len(sizes)))
    totals = [sum(sizes[number] for number in share) for share in shares]
    assert max(totals) - min(totals) <= max(sizes, default=0)


def test_targets_that_do_not_pair_up_are_refused_before_the_work(run, tmp_path):
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    (tmp_path / "out.txt").write_text("uno\n")
    done = cli("predict", run.folder, "--input", tmp_path / "in.txt", "--targets", tmp_path / "out.txt")
    assert done.returncode == 2
    assert "2 inputs and 1 outputs" in done.stderr


# ------------------------------------------------------------------------------------------------------------- compare


def test_a_grid_is_every_combination():
    variants = grid(("model.context=initial,attention", "training.seed=1,2,3"))
    assert len(variants) == 6
    assert variants[0].name == "context=initial seed=1"
    assert variants[-1].set == {"model.context": "attention", "training.seed": "3"}


@pytest.mark.parametrize("text", ["model.context", "model.context=a,,b", "model.context=a,a"])
def test_a_wrong_grid_is_named(text):
    with pytest.raises(CallError, match=text):
        grid((text,))


def test_a_comparison_fits_into_a_terminal_and_shows_what_differs(capsys):
    scores = [
        {"bleu": 10.0 * n, "chrf2": 20.0 * n, "sentences": 1000.0, "aer": n / 10, "aer_uniform": 0.9} for n in (1, 2)
    ]
    rows = [
        ComparisonRow(f"variant {n}", {}, "", one, 1234567, 80, 60.0, 2**29, [], []) for n, one in enumerate(scores)
    ]
    comparison = Comparison("ladder", rows, Path("compare.html"), ("data", "budget", "seed"))
    assert comparison.columns() == ["bleu", "chrf2", "aer"]
    Console(width=80).print(comparison.table())
    said = capsys.readouterr().out
    assert "…" not in said
    assert "variant 1" in said
    assert "the same data, budget and seed for all" in " ".join(said.split())
    assert "steps" in said
    assert "20.00" in said
    assert "0.20" in said
    same = Comparison("ladder", [rows[0], rows[0]], Path("compare.html"), ())
    Console(width=80).print(same.table())
    assert "1,234,567" in capsys.readouterr().out


@pytest.mark.slow
def test_compare_trains_every_variant_and_writes_one_page(tmp_path):
    file = recipe(tmp_path, "recurrent", max_steps=40, validate_every=20)
    with (tmp_path / "pairs.tsv").open("a") as pairs:
        pairs.write("no target\n")
    vary = "model.context=initial,attention"
    done = process("compare", file, "--vary", vary, "-o", tmp_path / "out", "--json", "--max-steps", 20)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("split  pairs") == 1, "the same data is looked over once"
    assert "regard predict" not in done.stderr
    found = json.loads(done.stdout)
    assert found["shared"] == ["data", "budget", "seed"]
    rows = found["variants"]
    assert [row["steps"] for row in rows] == [20, 20]
    assert [row["name"] for row in rows] == ["context=initial", "context=attention"]
    assert rows[1]["parameters"] > rows[0]["parameters"]
    assert all(row["peak_memory"] > 2**20 and row["seconds"] > 0 and len(row["history"]) == 1 for row in rows)
    page = (tmp_path / "out/compare.html").read_text(encoding="utf-8")
    assert "context=initial" in page
    assert "The same data, budget and seed for all." in page
    assert "BLEU by words of the source" in page
    assert "<script" not in page
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_compare_finds_a_mistake_in_the_last_variant_before_the_first_is_trained(tmp_path):
    file = recipe(tmp_path, "recurrent")
    done = cli("compare", file, "--vary", "model.score=additive,addditive", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "did you mean 'additive'?" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_comparison_claims_to_share_what_it_shares():
    seeds = [config.read("translate-recurrent", [f"training.seed={seed}"]) for seed in (1, 2)]
    assert shared_by(seeds) == ("data", "budget")
    limits = [config.read("translate-recurrent", [f"training.max_steps={steps}"]) for steps in (1, 2)]
    assert shared_by(limits) == ("data", "seed")


def test_compare_says_how_values_are_varied(tmp_path):
    done = cli("compare", "translate-recurrent", "model.score=dot,additive", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "--vary model.score=dot,additive" in done.stderr


@pytest.mark.parametrize("command", ["compare", "verify"])
def test_that_there_is_nothing_to_score_is_said_before_training(command, tmp_path):
    pairs = write_pairs(tmp_path / "pairs.tsv")
    how = ["--vary", "training.seed=1,2"] if command == "compare" else ["expected.metric=bleu", "expected.score=1"]
    done = cli(command, "translate-recurrent", f"data.train={pairs}", *how, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "no test data: give data.test=FILE" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_verify_holds_a_recipe_to_its_promise(tmp_path):
    file = recipe(tmp_path, "recurrent", max_steps=10, validate_every=10)
    promise = ("expected.metric=exact_match", "expected.spread=0")
    kept = process("verify", file, *promise, "expected.score=0", "-o", tmp_path / "run", "--json")
    assert kept.returncode == 0, kept.stderr
    assert json.loads(kept.stdout)["met"] is True
    broken = process("verify", file, *promise, "expected.score=101", "-o", tmp_path / "run")
    assert broken.returncode == 1, broken.stderr
    assert "DOES NOT HOLD" in broken.stdout
    without = process("verify", file, "-o", tmp_path / "run")
    assert without.returncode == 2
    assert "has no expected score" in without.stderr
