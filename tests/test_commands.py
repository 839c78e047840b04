"""compare and verify, on a small file, through the command line."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from regard.commands.compare import Comparison, Row, grid
from regard.errors import CallError
from test_translate import cli, recipe


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
    rows = [Row(f"variant {n}", {}, "", one, 1234567, 60.0, 2**29, [], []) for n, one in enumerate(scores)]
    comparison = Comparison("ladder", rows, Path("compare.html"))
    assert comparison.columns() == ["bleu", "chrf2", "aer"]
    Console(width=80).print(comparison.table())
    said = capsys.readouterr().out
    assert "…" not in said
    assert "variant 1" in said
    assert "20.00" in said
    assert "0.20" in said
    same = Comparison("ladder", [rows[0], rows[0]], Path("compare.html"))
    Console(width=80).print(same.table())
    assert "1,234,567" in capsys.readouterr().out


@pytest.mark.slow
def test_compare_trains_every_variant_and_writes_one_page(tmp_path):
    file = recipe(tmp_path, "recurrent", max_steps=40, validate_every=20)
    vary = "model.context=initial,attention"
    done = cli("compare", file, "--vary", vary, "-o", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["variants"]
    assert [row["name"] for row in rows] == ["context=initial", "context=attention"]
    assert rows[1]["parameters"] > rows[0]["parameters"]
    assert all(row["peak_memory"] > 2**20 and row["seconds"] > 0 and len(row["history"]) == 2 for row in rows)
    page = (tmp_path / "out/compare.html").read_text(encoding="utf-8")
    assert "context=initial" in page
    assert "BLEU by words of the source" in page
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_compare_finds_a_mistake_in_the_last_variant_before_the_first_is_trained(tmp_path):
    file = recipe(tmp_path, "recurrent")
    done = cli("compare", file, "--vary", "model.score=additive,addditive", "-o", tmp_path / "out")
    assert done.returncode == 2
    assert "did you mean 'additive'?" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_verify_holds_a_recipe_to_its_promise(tmp_path):
    file = recipe(tmp_path, "recurrent", max_steps=10, validate_every=10)
    promise = ("expected.metric=exact_match", "expected.spread=0")
    kept = cli("verify", file, *promise, "expected.score=0", "-o", tmp_path / "run", "--json")
    assert kept.returncode == 0, kept.stderr
    assert json.loads(kept.stdout)["met"] is True
    broken = cli("verify", file, *promise, "expected.score=101", "-o", tmp_path / "run")
    assert broken.returncode == 1, broken.stderr
    assert "DOES NOT HOLD" in broken.stdout
    without = cli("verify", file, "-o", tmp_path / "run")
    assert without.returncode == 2
    assert "carries no expected score" in without.stderr
