"""Every command of README.md and docs/*.md can be given, and those that are quick do what they say."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from doc_commands import COMMANDS, PAGES, ROOT, STEPS, Block, Step, parts_of
from regard import config
from regard.cli import cli
from regard.cost.published import PUBLISHED
from regard.detect.detect import HUB
from regard.jobs import JOBS

PLACEHOLDER = re.compile(r"[A-Z]+")  # RUN, RECIPE, NAME
PARSED = list(dict.fromkeys(command._replace(reason="") for command in COMMANDS))


@pytest.mark.parametrize("command", PARSED, ids=str)
def test_every_command_can_be_given(command: Step):
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
    assert recipe in config.packaged_recipes()
    overrides = [text for text in given.get("overrides", ()) if text != "..." and not text.endswith("=...")]
    own = [text for text in overrides if text.startswith("data.") and Path(text.partition("=")[2]).suffix]  # not here
    config.read(recipe, [text for text in overrides if text not in own])
    for name, values in (vary.split("=") for vary in given.get("vary", ())):
        for value in values.split(","):
            config.read(recipe, {name: value})


@pytest.fixture(scope="module")
def run_in_wheel(site, tmp_path_factory):
    """Steps of a page, in a folder where there is nothing but `examples`, by the regard of an installed wheel."""
    folder = tmp_path_factory.mktemp("docs")
    process = subprocess.Popen(
        [sys.executable, "-P", ROOT / "tests" / "doc_runner.py", site, ROOT / "tests"], cwd=folder, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(site)},
    )  # fmt: skip
    said = process.stdout
    assert process.stdin
    assert said

    def run(page: str, steps: list[Step]) -> str:
        work = folder / page.replace("/", "-")
        shutil.copytree(ROOT / "examples", work / "examples")
        print(
            json.dumps({"folder": str(work), "steps": [step._asdict() for step in steps]}),
            file=process.stdin,
            flush=True,
        )
        answer = said.readline()
        shutil.rmtree(work)
        return json.loads(answer or '"the process has ended"')

    yield run
    process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page, steps in STEPS.items() if not all(step.reason for step in steps)])
def test_what_a_page_prints_runs_where_only_the_examples_and_a_wheel_are(page, run_in_wheel):
    problem = run_in_wheel(page, [step for step in STEPS[page] if not step.reason])
    assert not problem, problem


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_is_fenced_and_so_is_run(page):
    hidden = [part.lines for part in parts_of(page) if isinstance(part, Block) and not part.fenced and part.is_python]
    assert hidden == []


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


RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
TABLE = re.compile(r"^\|[-:| ]+\|$", re.MULTILINE)
PRINTS = re.compile(
    r"^    .*(?:regard|python|make) \w|`(?:regard [a-z]+|python benchmarks/|make) ?[^`]*`", re.MULTILINE
)


def test_every_table_of_results_has_a_command():
    for section in RESULTS.split("\n## ")[1:]:
        if TABLE.search(section):
            assert PRINTS.search(section), section.partition("\n")[0]


@pytest.mark.parametrize(("recipe", "row"), re.findall(r"^\|.*`regard verify ([\w-]+)`(.*)\|$", RESULTS, re.MULTILINE))
def test_scores_of_results_are_those_that_recipes_promise(recipe, row):
    promise = config.read(recipe).expected
    assert promise
    told = [float(number) for number in re.findall(r"\d+\.\d+", row.rpartition("|")[2])]
    assert min(abs(number - promise.score) for number in told) <= promise.spread
