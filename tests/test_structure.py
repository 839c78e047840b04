"""The house rules that a reader relies on: imports go one way, and every name of the catalogue exists and is tested."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard import catalog
from regard.jobs import JOBS

SOURCE = Path(regard.__file__).parent

BELOW = {
    "attention", "layers", "encoders", "decoders", "models", "data", "decoding", "metrics", "corpora", "settings",
    "catalog", "look", "cost", "pretrained", "outputs", "job",
}  # fmt: skip
# room → the rooms it may import from. `errors` is open to all.
MAY_IMPORT = {
    "errors": set(),
    "settings": set(),
    "catalog": set(),
    "config": {"settings", "recipes", "jobs", "outputs"},
    "attention": set(),
    "layers": {"attention"},
    "encoders": {"attention", "layers"},
    "decoders": {"attention", "layers"},
    "models": {"attention", "layers", "encoders", "decoders"},
    "decoding": {"attention"},
    "metrics": set(),
    "corpora": {"metrics"},
    "data": {"corpora", "settings"},
    "training": {"settings"},
    "look": {"metrics", "attention"},
    "cost": {"attention", "layers", "encoders", "decoders", "models", "settings", "outputs", "inputs"},
    "pretrained": {"config", "data", "settings", "outputs", "inputs"},
    "inputs": BELOW,
    "outputs": BELOW | {"inputs", "companion_run"},
    "job": BELOW | {"inputs", "outputs"},
    "jobs": {"settings", "inputs", "outputs"},
    "companion_run": {"catalog", "config", "jobs", "training"},
}  # fmt: skip
EVERYTHING = {"api", "fine_tuning", "cli", "commands", "search", "serve", "__init__", "__main__"}  # the top floor


def imports_of(file: Path) -> set[str]:
    """The rooms of regard that a file imports, anywhere in it."""
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{file.name}: say where from in full"
        if isinstance(node, ast.ImportFrom) and node.module:
            base = node.module
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "regard" else [base]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("regard.")}
    return rooms


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_go_one_way(file):
    room = room_of(file)
    if room in EVERYTHING or room == "recipes":
        return
    assert room in MAY_IMPORT, f"{room} is a new room: say in MAY_IMPORT and in docs/design.md what it may import"
    wrong = imports_of(file) - MAY_IMPORT[room] - {room, "errors", "__version__"}
    assert not wrong, f"{file.relative_to(SOURCE)} imports {sorted(wrong)}, which lie above it"


def test_every_room_is_in_the_design():
    design = (SOURCE.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    for room in {room_of(file) for file in SOURCE.rglob("*.py")} - {"__init__", "__main__"}:
        assert f"{room}/" in design or f"{room}.py" in design, f"docs/design.md does not name {room}"


def mentioned(thing) -> bool:
    texts = [file.read_text(encoding="utf-8") for file in Path(__file__).parent.rglob("*.py") if file != Path(__file__)]
    return any(thing.__name__ in text for text in texts)


@pytest.mark.parametrize("name", catalog.SCORES)
def test_every_score_exists_and_is_tested(name):
    score = catalog.find(catalog.SCORES, name)
    assert mentioned(score), f"no test mentions {score.__name__}"


@pytest.mark.parametrize("job", [job for job, row in JOBS.items() if row.input])
def test_every_job_has_an_input_and_an_output_that_are_tested(job):
    row = JOBS[job]
    inputs = [row.input] if isinstance(row.input, str) else list(row.input.values())
    for thing in map(catalog.load_object, [*inputs, row.output]):
        assert callable(thing)
    assert mentioned(catalog.load_object(row.output)), f"no test mentions the output of {job}"


@pytest.mark.parametrize("module", ["regard", "regard.cli", "regard.config", "regard.catalog", "regard.jobs"])
def test_light_modules_import_nothing_heavy(module):
    code = (
        f"import sys, {module}; print([m for m in ('torch', 'numpy', 'matplotlib', 'tokenizers') if m in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert loaded == "[]"
