"""Commands of benchmarks/ that the docs print parse, and comparisons give all systems the same."""

import argparse
import ast
import re
import runpy
import shlex
import sys
import time
from pathlib import Path

import click
import pytest
import torch

from doc_commands import COMMENT, PAGES, ROOT
from regard import config

SCRIPTS = ROOT / "benchmarks"
COMMAND = re.compile(r"python (benchmarks/\w+\.py[^`\n]*)")
PRINTED = sorted(
    {COMMENT.sub("", text) for page in PAGES for text in COMMAND.findall(page.read_text(encoding="utf-8"))}
)


class ParsedError(Exception):
    """The command line was understood; the benchmark does not begin."""


@pytest.fixture
def parsing(monkeypatch, tmp_path):
    """Scripts stop after their command line; the runs that a page names exist."""
    parse, own = argparse.ArgumentParser.parse_args, sys.path[:]

    def parse_args(parser, *args, **options):
        parse(parser, *args, **options)
        raise ParsedError

    def main(command, *args, **options):
        command.make_context(command.name, sys.argv[1:])
        raise ParsedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
    monkeypatch.setattr(click.Command, "main", main)
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *own])
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)

    def run(words: list[str]) -> None:
        for word in words[1:]:
            if word.startswith("runs/"):
                Path(word).mkdir(parents=True, exist_ok=True)
        monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(str(ROOT / words[0]), run_name="__main__")

    return run


@pytest.mark.parametrize("text", PRINTED)
def test_a_printed_benchmark_can_be_started(text, parsing):
    """The script is there, and knows the options and the choices of the command."""
    words = shlex.split(text)
    source = (ROOT / words[0]).read_text(encoding="utf-8")
    if "parse_args" not in source and "@click." not in source:
        assert len(words) == 1, "it has no options"
        return
    with pytest.raises(ParsedError):
        parsing(words)


def test_a_wrong_option_of_a_benchmark_is_noticed(parsing):
    with pytest.raises(SystemExit):
        parsing(["benchmarks/attention.py", "--size", "9", "--colour", "red"])
    with pytest.raises(click.NoSuchOption):
        parsing(["benchmarks/quantize.py", "--colour", "red"])


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))


def test_recipes_by_hand_end_within_the_limit_of_time(scripts):
    """A schedule without an end would stop the recipe at a high learning rate."""
    import own_data

    for name in own_data.CASES.keys() - {"numbers"}:  # `speech` opens its recordings; its schedule is a cosine, too
        own_data.read_hand_recipe(own_data.CASES[name], Path("train.tsv"), 600.0)
    assert config.read("multi30k-transformer").training.schedule == "inverse_sqrt"
    with pytest.raises(SystemExit, match="has no end"):
        own_data.read_hand_recipe(
            own_data.Case(lambda folder: None, "multi30k-transformer", "bleu"), Path("t.tsv"), 60.0
        )


def test_candidates_are_settings_of_their_recipe(scripts):
    import choices

    for recipe, choice in choices.CHOICES.items():
        assert choice.candidates, recipe
        for candidate in choice.candidates:
            config.read(recipe, choices.list_overrides(candidate))


def test_multihead_attention_has_the_same_inputs_in_both_systems(scripts):
    import attention

    for way in ("regard", "torch"):
        q, k, v = (torch.randn(1, 4, 16, requires_grad=True) for _ in range(3))
        attention.Case("multihead", way).build(16)(q, k, v).sum().backward()
        assert [one.grad is not None for one in (q, k, v)] == [True, True, False], way


def test_all_systems_of_decoding_may_use_the_cores_in_both_ways(scripts):
    from contextlib import ExitStack

    from peers.decoding import settings_by_cores

    with ExitStack() as stack:
        settings = settings_by_cores(lambda sources, beam, batch: [[*ids, beam, batch] for ids in sources], 2, stack)
        outputs = {name: decode([[1], [2, 3], [4]], 5, 8) for name, decode in settings.items()}
    assert list(outputs) == ["1 × 2", "2 × 1"]
    assert outputs["1 × 2"] == outputs["2 × 1"] == [[1, 5, 8], [2, 3, 5, 8], [4, 5, 8]]


def test_multi30k_is_scored_in_both_measures(scripts):
    import multi30k

    assert multi30k.tokenize(["Ein Mann, der z.B. läuft… „schnell“."], "de") == [
        "ein mann , der z.b. läuft ... &quot; schnell &quot; ."
    ]
    outputs, references = ["Ein mann läuft schnell durch den Park."], ["Ein Mann läuft schnell durch den Park ."]
    mixed, lowered = multi30k.score_outputs(outputs, references)
    assert mixed.bleu < lowered.bleu == pytest.approx(100.0)
    assert "case:mixed" in mixed.signature
    assert "tok:13a" in mixed.signature
    assert "case:lc" in lowered.signature
    assert "tok:none" in lowered.signature


def test_each_system_of_smollm2_gets_its_best_number_of_threads(scripts, monkeypatch):
    import smollm2

    used: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch, "set_num_threads", used.append)

    def slow_with(threads: int) -> smollm2.System:
        return smollm2.System(lambda tokens: str(time.sleep(0.02 * (used[-1] == threads))), lambda tokens: None)

    assert [smollm2.find_best_threads(slow_with(threads)) for threads in (1, 4)] == [4, 1]
    assert used[-1] == 4


@pytest.mark.parametrize("file", sorted(SCRIPTS.glob("*.py")), ids=lambda file: file.stem)
def test_every_benchmark_says_how_it_is_called(file):
    doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    assert doc
    assert f"python benchmarks/{file.name}" in doc
