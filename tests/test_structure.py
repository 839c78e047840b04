"""Rules of the architecture: imports go one way, an input knows no task and no other input, nothing outside the table
of jobs and the folders of tasks names a job, files are short."""

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
LONGEST = 450  # lines

#: Packages (and modules of the top level), lowest first. Each imports from the lines above it only, imports inside
#: functions and for type checking included.
LAYERS = """
special_tokens synonyms version recipes
errors
catalog files metrics work
corpora datasets kernels settings
attention data generation jobs training
config layers look
auxiliary_models decoders encoders pretrained
models
cost inputs
tasks
job light
detect report
runs
api
exporters loading
__init__ commands serve
cli
__main__
"""
LAYER = {name: number for number, line in enumerate(LAYERS.strip().split("\n")) for name in line.split()}


def modules_of(file: Path) -> set[str]:
    """Return the modules of regard that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        assert not (isinstance(node, ast.ImportFrom) and node.level), f"{file.name}: import by the full path"
        if isinstance(node, ast.ImportFrom) and node.module:
            base = node.module
            found |= {f"{base}.{alias.name}" for alias in node.names} if base == "regard" else {base}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("regard.")}


def package_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("package", sorted({package_of(file) for file in FILES}))
def test_imports_go_one_way(package):
    assert package in LAYER, f"{package} is a new package: give it a place in LAYERS and in docs/design.md"
    for file in FILES:
        if package_of(file) == package:
            names = {name.split(".")[1] for name in modules_of(file)} - {package}
            wrong = {name for name in names if LAYER.get(name, LAYER["__init__"]) >= LAYER[package]}
            assert not wrong, f"{file.relative_to(SOURCE)} imports {sorted(wrong)}, which are not below {package}"


def test_an_input_knows_no_other_input():
    for file in (SOURCE / "inputs").rglob("*.py"):
        own = file.relative_to(SOURCE).parts[1]
        folders = {name.split(".")[2] for name in modules_of(file) if name.startswith("regard.inputs.")}
        shared = {path.stem for path in (SOURCE / "inputs").glob("*.py")}
        assert not folders - {own} - shared, f"{file.relative_to(SOURCE)} imports {sorted(folders - {own} - shared)}"


#: Files that know columns of tables, which are called so.
COLUMNS = ("detect/listed.py", "detect/detected.py", "config.py", "data/formats.py", "datasets/fetch.py")


def test_nothing_outside_the_folders_names_a_job():
    """As a string that is compared, or as the class of its recipe. Recipes, docs and help texts may tell of them."""
    names = {f'"{name}"' for name in JOBS} | {recipe_class(name).__name__ for name in JOBS}
    readers = ("encoders", "language", "marian", "vit")  # of pretrained models: each makes a run of some job
    allowed = {"jobs.py", "synonyms.py", *(f"pretrained/{name}.py" for name in readers)}
    for file in FILES:
        place = file.relative_to(SOURCE)
        if place.parts[0] in ("inputs", "tasks", "corpora") or str(place) in allowed:
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        said = {f'"{node.value}"' for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        said |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        said -= {'"tag"'} if str(place) == "settings/mistakes.py" else set()  # a word of pydantic
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


def test_every_package_is_in_the_design():
    design = (SOURCE.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    for package in {package_of(file) for file in FILES} - {"__init__", "__main__"}:
        assert f"{package}/" in design or f"{package}.py" in design, f"docs/design.md does not name {package}"


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
