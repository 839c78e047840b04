"""The house rules that a reader relies on: imports go one way, an input knows no output and no other input, nothing
outside the table and the folders names a job, files are short."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard import catalog
from regard.jobs import JOBS, recipe_class

SOURCE = Path(regard.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
LONGEST = 400  # lines

OPEN = {"arriving", "errors", "files", "special_tokens", "synonyms", "work", "__version__"}  # to all
MODELS = {"native", "attention", "layers", "encoders", "decoders", "models"}
INPUTS = MODELS | {"catalog", "corpora", "data", "look", "metrics", "parts", "pretrained", "settings"}
OUTPUTS = INPUTS | {"inputs", "cost", "decoding", "other_run"}

# room → the rooms it may import from
MAY_IMPORT = {
    "arriving": set(),
    "errors": set(),
    "files": set(),
    "special_tokens": set(),
    "synonyms": set(),
    "work": set(),
    "workers": set(),
    "catalog": set(),
    "settings": {"catalog"},
    "config": {"settings", "recipes", "jobs", "outputs", "recipe_mistakes"},
    "recipe_mistakes": {"settings"},
    "native": set(),
    "attention": {"native"},
    "layers": {"attention", "native"},
    "encoders": {"attention", "layers", "native"},
    "decoders": {"attention", "layers", "native"},
    "models": {"attention", "layers", "encoders", "decoders", "native"},
    "decoding": {"attention", "native"},
    "metrics": set(),
    "corpora": {"catalog", "metrics"},
    "data": {"corpora", "settings"},
    "datasets": {"catalog"},
    "training": {"settings"},
    "look": {"metrics", "attention"},
    "report": {"look", "settings", "training"},
    "parts": MODELS | {"catalog", "settings"},
    "cost": MODELS | {"settings", "outputs"},
    "pretrained": {"config", "data", "settings"},
    "inputs": INPUTS,
    "outputs": OUTPUTS,
    "job": OUTPUTS | {"outputs", "workers"},
    "jobs": {"catalog", "settings", "inputs", "outputs", "job"},
    "other_run": {"config", "jobs", "training"},
    "auto": {"catalog", "config", "data", "inputs", "jobs", "pretrained", "settings", "training"},
    "light": {"catalog", "config", "data", "decoding", "inputs", "look", "metrics", "outputs", "settings"},
    "exporters": OUTPUTS | {"api", "job", "jobs", "light", "outputs", "training"},
}
EVERYTHING = {  # the top floor
    *(
        "api",
        "cli",
        "cli_tools",
        "commands",
        "fine_tuning",
        "loading",
        "model_card",
        "next_commands",
        "search",
        "serve",
        "train_request",
        "training_run",
    ),
    *("__init__", "__main__"),
}
HELD = [file for file in FILES if file.relative_to(SOURCE).parts[0].removesuffix(".py") not in EVERYTHING | {"recipes"}]


def modules_of(file: Path) -> set[str]:
    """The modules of regard that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{file.name}: say where from in full"
        if isinstance(node, ast.ImportFrom) and node.module:
            base = node.module
            found |= {f"{base}.{alias.name}" for alias in node.names} if base == "regard" else {base}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("regard.")}


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("file", HELD, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_go_one_way(file):
    room = room_of(file)
    assert room in MAY_IMPORT, f"{room} is a new room: say in MAY_IMPORT and in docs/design.md what it may import"
    wrong = {name.split(".")[1] for name in modules_of(file)} - MAY_IMPORT[room] - OPEN - {room}
    assert not wrong, f"{file.relative_to(SOURCE)} imports {sorted(wrong)}, which lie above it"


def test_an_input_knows_no_other_input():
    for file in (SOURCE / "inputs").rglob("*.py"):
        own = file.relative_to(SOURCE).parts[1]
        folders = {name.split(".")[2] for name in modules_of(file) if name.startswith("regard.inputs.")}
        shared = {path.stem for path in (SOURCE / "inputs").glob("*.py")}
        assert not folders - {own} - shared, f"{file.relative_to(SOURCE)} imports {sorted(folders - {own} - shared)}"


#: Files that know columns of tables, which are called so.
COLUMNS = ("auto/listed.py", "auto/told.py", "config.py", "data/json_rows.py", "datasets/layout.py")


def test_nothing_outside_the_folders_names_a_job():
    """As a string that is compared, or as the class of its recipe. Recipes, docs and help texts may tell of them."""
    names = {f'"{name}"' for name in JOBS} | {recipe_class(name).__name__ for name in JOBS}
    readers = ("encoder_runs", "language", "marian", "vit")  # of models of others: each makes a run of some job
    allowed = {"jobs.py", "synonyms.py", *(f"pretrained/{name}.py" for name in readers)}
    for file in FILES:
        place = file.relative_to(SOURCE)
        if place.parts[0] in ("inputs", "outputs", "corpora") or str(place) in allowed:
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        said = {f'"{node.value}"' for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        said |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        said -= {'"tag"'} if str(place) == "recipe_mistakes.py" else set()  # what pydantic calls the kind of a section
        columns = str(place) in COLUMNS
        said -= {'"answer"', '"caption"'} if columns else set()
        assert not said & names, f"{place} names {sorted(said & names)}"


def test_files_are_short():
    long = {str(file.relative_to(SOURCE)): len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert not {name: lines for name, lines in long.items() if lines > LONGEST}


def test_modules_of_the_page_share_one_scope():
    """An exported file has them all in one script, so that a name that two of them give is an error there."""
    given = []
    for file in sorted((SOURCE / "look" / "page").glob("*.js")):
        text = file.read_text(encoding="utf-8")
        for found in re.findall(r"^(?:export )?(?:async )?(?:const|let|function) (\[[^\]]+\]|\w+)", text, re.MULTILINE):
            given += re.findall(r"\w+", found)
    assert len(given) > 100
    assert not {name for name in given if given.count(name) > 1}


def test_every_room_is_in_the_design():
    design = (SOURCE.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    for room in {room_of(file) for file in FILES} - {"__init__", "__main__"}:
        assert f"{room}/" in design or f"{room}.py" in design, f"docs/design.md does not name {room}"


def test_every_row_of_the_table_can_be_made():
    for name, row in JOBS.items():
        assert recipe_class(name).model_fields["job"].default == name
        given = list(row.input.values()) if isinstance(row.input, dict) else row.input
        inputs = [given] if isinstance(given, str) else given
        assert all(callable(catalog.load_object(path)) for path in (*inputs, row.output))


@pytest.mark.parametrize("module", ["regard", "regard.cli", "regard.config", "regard.catalog", "regard.jobs"])
def test_light_modules_import_nothing_heavy(module):
    code = (
        f"import sys, {module}; print([m for m in ('torch', 'numpy', 'matplotlib', 'tokenizers') if m in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert loaded == "[]"


def test_names_are_american():
    """In identifiers, settings and options; prose may be as it is."""
    british = re.compile(r"\w*(okenis|ptimis|ormalis|nitialis|olour|abelled|entre\b)\w*")
    for file in FILES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        wrong = {name for name in names if british.fullmatch(name)}
        assert not wrong, f"{file.relative_to(SOURCE)}: {sorted(wrong)}"
