"""Every command of README.md and docs/*.md can be given, and those that are quick do what they say."""

import re
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from doc_commands import BLOCKS, COMMANDS, ROOT, Command
from export_runs import without_shape_checks
from recipe_runs import SHORT, short, small_corpora
from regard import config
from regard.auto.detect import HUB
from regard.cli import cli
from regard.cost.published import PUBLISHED
from regard.exporters import check_inputs
from regard.jobs import JOBS

PLACEHOLDER = re.compile(r"[A-Z]+")  # RUN, RECIPE, NAME
CHECKED = 3  # inputs that prove an export
BUDGET = ["--max-steps", "2"]  # of what is trained here, on a few examples of each corpus
PAGES = list(dict.fromkeys([*(one.page for one in COMMANDS if one.runs), *(block.page for block in BLOCKS)]))
PARSED = list(dict.fromkeys(command._replace(runs=False) for command in COMMANDS))


@pytest.mark.parametrize("command", PARSED, ids=str)
def test_every_command_can_be_given(command: Command):
    """Its options are those of the command line, its recipe is there and takes its settings."""
    verb, *words = command.words
    assert verb in cli.commands
    given = cli.commands[verb].make_context(verb, words).params
    recipe = given.get("recipe")
    if recipe is None or recipe in PUBLISHED or PLACEHOLDER.fullmatch(recipe) or recipe.endswith(".yaml"):
        return
    if verb == "train" and (
        recipe.startswith(HUB) or all((ROOT / file).exists() for file in recipe.split(","))
    ):  # data
        return
    assert recipe in config.packaged()
    overrides = [text for text in given.get("overrides", ()) if text != "..." and not text.endswith("=...")]
    own = [text for text in overrides if text.startswith("data.") and Path(text.partition("=")[2]).suffix]  # not here
    config.read(recipe, [text for text in overrides if text not in own])
    for name, values in (vary.split("=") for vary in given.get("vary", ())):
        for value in values.split(","):
            config.read(recipe, {name: value})


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_quick_commands_and_the_python_of_a_page_run_as_they_are_printed(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(check_inputs, "MOST", CHECKED)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    with small_corpora():
        names: dict[str, object] = {}
        for command in (command for command in COMMANDS if command.page == page and command.runs):
            verb, *words = command.words
            budget = []
            if verb in ("train", "compare"):
                budget = BUDGET + [f"decoding.max_length={SHORT}"] * bool(short(words[0]))
            try:
                with without_shape_checks() if verb == "export" else nullcontext():
                    cli.main([verb, *words, *budget], standalone_mode=False)
            except Exception as error:
                raise AssertionError(f"regard {' '.join(command.words)}") from error
            capsys.readouterr()
        for block in (block for block in BLOCKS if block.page == page):
            block.run(names)


EXAMPLES = [
    command.words for command in COMMANDS if command.page == "examples/README.md" and command.words[0] == "train"
]


@pytest.mark.parametrize("words", EXAMPLES, ids=lambda words: words[1])
def test_an_example_is_what_its_job_reads(words, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    cli.main(["check", *words[1:]], standalone_mode=False)


def test_every_job_has_an_example():
    assert {config.read(words[1]).job for words in EXAMPLES} >= set(JOBS) - {
        "encode",
        "match",
        "draw",
    }  # files as others'


def test_every_file_of_the_examples_is_told_of():
    told = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    for file in (ROOT / "examples").iterdir():
        assert f"`{file.name}{'/' if file.is_dir() else ''}`" in told or file.name == "README.md", file.name
