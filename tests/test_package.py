"""What is shipped: a wheel and an sdist, installed where there is what the package and training need, and no more."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
from email import message_from_bytes
from email.message import Message
from importlib.metadata import PackageNotFoundError, distribution, distributions, packages_distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from doc_commands import ROOT
from skips import ALLOWED

NAME = re.compile(r"[\w.-]+")
EXTRA = re.compile(r"extra\s*==")
TRAIN = re.compile(r"extra\s*==\s*['\"]train['\"]")

#: Finds no package and no module that an environment without extras would not have.
ALONE = """
import json, sys
from importlib.machinery import PathFinder
absent = json.load(open(ABSENT))
class Present(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in absent["modules"] else super().find_spec(name, path, target)
    @classmethod
    def find_distributions(cls, *context):
        return (one for one in super().find_distributions(*context) if one.name not in absent["packages"])
sys.meta_path[sys.meta_path.index(PathFinder)] = Present
"""

#: Commands, each a list of words → what each ended with: "" or the sentence of its error.
RUN = """
import json, sys
from regard.cli import cli
ended = []
for words in json.load(sys.stdin):
    try:
        cli.main(words, standalone_mode=False)
        ended.append("")
    except Exception as error:
        ended.append(f"{type(error).__name__}: {error}")
json.dump(ended, open("ended.json", "w"))
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(name: str, seen: set[str]) -> set[str]:
    """A distribution and all that it needs, extras of others left out."""
    if normal(name) in seen:
        return seen
    seen.add(normal(name))
    try:
        asked = distribution(name).requires or []
    except PackageNotFoundError:  # for another system
        return seen
    for text in asked:
        if not EXTRA.search(text):
            needed(NAME.match(text)[0], seen)
    return seen


def metadata_of(built: Path) -> Message:
    with ZipFile(next(built.glob("*.whl"))) as wheel:
        return message_from_bytes(wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA"))))


@pytest.fixture(scope="module")
def installed(built, site, tmp_path_factory):
    """The wheel in a new environment that sees the packages of this one, but for regard and what only extras need."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    base: set[str] = set()
    for text in metadata_of(built).get_all("Requires-Dist"):
        if not EXTRA.search(text) or TRAIN.search(text):
            needed(NAME.match(text)[0], base)
    owned = {module: owners for module, owners in packages_distributions().items() if module != "regard"}
    modules = [module for module, owners in owned.items() if not any(normal(one) in base for one in owners)]
    others = [one.name for one in distributions() if normal(one.name) not in base | {"regard"}]
    (folder / "absent.json").write_text(json.dumps({"modules": modules, "packages": others}))
    packages = next((folder / "env" / "lib").glob("python*/site-packages"))
    (packages / "alone.py").write_text(ALONE.replace("ABSENT", repr(str(folder / "absent.json"))))
    (packages / "needed.pth").write_text(f"{site}\n{sysconfig.get_paths()['purelib']}\nimport alone\n")
    work = folder / "work"
    work.mkdir()
    (work / "examples").symlink_to(ROOT / "examples")

    def run(*commands: list[str]) -> list[str]:
        done = subprocess.run(
            [str(python), "-P", "-c", RUN], input=json.dumps(commands), cwd=work, text=True, capture_output=True,
            env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": str(folder)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads((work / "ended.json").read_text())

    return run


def test_what_a_package_index_shows_leads_nowhere_that_is_not_there(built):
    text = metadata_of(built).get_payload()
    assert "see where they look" in text
    links = re.findall(r"\]\(([^)]*)\)", text) + re.findall(r'(?:src|href)="([^"]*)"', text)
    assert [link for link in links if not link.startswith("https://")] == []


def test_a_wheel_has_every_file_of_the_package(built):
    """So what runs here, such as each command of the docs, runs where only the wheel is."""
    with ZipFile(next(built.glob("*.whl"))) as wheel:
        held = {name for name in wheel.namelist() if name.startswith("regard/")}
    source = ROOT / "src"
    own = (file.relative_to(source).as_posix() for file in (source / "regard").rglob("*") if file.is_file())
    assert held == {name for name in own if "__pycache__" not in name}


def test_an_sdist_has_what_readers_and_testers_need(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    wanted = (
        "README.md",
        "SECURITY.md",
        "CITATION.cff",
        "docs/design.md",
        "examples/pairs.tsv",
        "tests/test_package.py",
    )
    assert not set(wanted) - names
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert f"{citation['title']}-{citation['version']}.tar.gz" in {file.name for file in built.iterdir()}


@pytest.mark.slow
def test_jobs_of_texts_need_no_other_extra(installed):
    short = ["--max-steps", "2", "--time-limit", "20s", "--yes"]
    trained = {
        "pairs.tsv": "we are eating bread", "labels.tsv": "what a day", "tags.conll": "the girl reads",
        "book.txt": "Once", "series.csv": "examples/series.csv",
    }  # fmt: skip
    commands = [
        *(["train", f"examples/{data}", *short, "-o", f"runs/{data}"] for data in trained),
        *(["predict", f"runs/{data}", one] for data, one in trained.items()),
        ["train", "answer-transformer", "data.train=examples/questions.tsv", "--max-steps", "2", "-o", "runs/answer"],
        ["train", "encode-transformer", "data.train=examples/pairs.tsv", "--max-steps", "2", "-o", "runs/encode"],
        ["look", "runs/pairs.tsv", "we are eating bread", "-o", "look.html"],
        ["evaluate", "runs/pairs.tsv", "data.test=examples/test.tsv"],
        ["doctor"],
    ]
    failed = [f"{' '.join(one)}: {said}" for one, said in zip(commands, installed(*commands), strict=True) if said]
    assert failed == []


def test_a_missing_extra_is_named_with_what_brings_it(installed):
    wanted = {
        "check tones data.train=examples/calls.tsv": "audio",
        "train examples/calls": "audio",
        "train shapes-caption data.train=examples/captions.tsv data.valid_share=0.5 model.encoder.kind=efficientnet":
            "efficientnet",
        "check languages": "languages",
        "check spelling-recurrent": "spelling",
        "check stocks": "series",
        "train translate-transformer data.train=examples/pairs.tsv training.tensorboard=true": "tensorboard",
    }  # fmt: skip
    ended = zip(wanted.items(), installed(*(words.split() for words in wanted)), strict=True)
    unsaid = [f"{words}: {said}" for (words, extra), said in ended if f"pip install 'regard[{extra}]'" not in said]
    assert unsaid == []
    (served,) = installed(["serve", "runs/none"])
    assert "no such run: runs/none" in served  # regard[train] brings the packages of regard[web]


SKIPPING = """
import pytest
pytest.importorskip("json")
def test_of_a_missing_program():
    pytest.skip("needs Chromium: apt-get install chromium")
def test_that_runs():
    pass
"""
MISSING = 'import pytest\npytest.importorskip("no_such", reason="needs no_such: pip install no_such")\n'


@pytest.mark.slow
@pytest.mark.parametrize("processes", [0, 2])
def test_skips_fail_in_ci_and_say_what_to_install_elsewhere(processes: int, tmp_path: Path) -> None:
    for name, text in {"test_some.py": SKIPPING, "test_none.py": MISSING, "pytest.ini": "[pytest]"}.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "skips", *["-n", "2"][:processes]]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}

    def ran(*more: str, ci: str = "") -> tuple[int, str]:
        done = subprocess.run(
            [*command, *more], env={**environment, "CI": ci}, cwd=tmp_path, capture_output=True, text=True
        )
        return done.returncode, done.stdout

    code, output = ran()
    assert code == 0
    assert "1 × needs Chromium: apt-get install chromium" in output
    assert "1 × needs no_such: pip install no_such" in output
    assert "FAILED" not in output
    for code, output in (ran(ci="true"), ran("--strict-skips")):
        assert code == 1
        assert "FAILED test_none.py: CI runs it" in output
        assert "FAILED test_some.py::test_of_a_missing_program: CI runs it" in output
    assert ran("--strict-skips", "-k", "test_that_runs", "test_some.py")[0] == 0


def test_tests_that_may_skip_exist() -> None:
    for name in ALLOWED:
        file, _, test = name.partition("::")
        assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text(), name


def test_ci_runs_the_tests_where_a_skip_fails(tmp_path: Path) -> None:
    if not (script := ROOT / ".ci" / "run").exists():
        pytest.skip("an sdist has no .ci/run: test a clone")
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_text(script.read_text())
    (tmp_path / "Makefile").write_text("test:\n\t@echo CI is $$CI\n")
    (tmp_path / "chromium").write_text("")  # nothing is to be installed
    (tmp_path / "chromium").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CI": ""}
    done = subprocess.run(["bash", tmp_path / ".ci" / "run"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "CI is true\n")
