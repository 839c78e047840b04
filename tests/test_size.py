"""The size of the code in numbers, each with a ceiling: they only go down. After a change that lowers a number, lower
its ceiling here; `python tests/test_size.py` prints all of them."""

import ast
import collections
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "regard"

CEILINGS = {
    "lines": 77_555,
    "files": 502,
    "Python files": 385,
    "lines of imports": 5_265,
    "files with fewer than 40 lines": 13,
    "files with one importer": 67,
    "functions with more than 8 parameters": 32,
    "classes with more than 20 methods": 8,
    "class flags": 61,
    "class names that exist twice": 8,
    "functions named by a participle": 128,
    "vague names": 200,
    "idioms in docstrings and errors": 80,
    "Any": 1_936,
    "isinstance": 717,
}

VAGUE = re.compile(
    r"^_?(told|tell|tells|said|say|asked|asking|wish|afresh|turned|beside|instead|held|heard|gone|goes_on|begun|unsaid|"
    r"looked|taken|placed|given|seen|made|wanted|spread|spelt|arriving|arrived)$",
    re.IGNORECASE,
)
PARTICIPLE = re.compile(r"^_?[a-z]+(?:ed|wn|en|ld|aid|one|ught|ept|ost)$")
IDIOM = re.compile(
    r"\b(told|tells|tell|said|says|saying|one's own|made ready|goes on|go on|gone on|begin with|held against|"
    r"holds? .{1,30} against|of like|so many|afresh|nobody|somebody|whoever|neither|speaks? for|looked over|"
    r"stands? (in|for|above|before)|is no |are no |was to have|anew|likewise|thought to|there is not one)\b"
)


def _functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([one for one in every if one.arg not in ("self", "cls")])


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(one).split(".")[-1] in ("property", "cached_property") for one in function.decorator_list)


def _is_flag(node: ast.stmt) -> bool:
    """Whether this is a class variable that is True or False."""
    return (
        isinstance(node, ast.AnnAssign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, bool)
        and "ClassVar" in ast.unparse(node.annotation)
    )


def _prose(tree: ast.AST) -> list[str]:
    """Docstrings, and what is raised."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
    raised = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None]
    return [*found, *(ast.unparse(error) for error in raised)]


def _vague_names(tree: ast.AST) -> int:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
    return sum(bool(VAGUE.match(name)) for name in names)


def _imports(text: str, name: str) -> set[str]:
    """The modules that an import of `regard` may mean."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found - {name}


def _importers(files: dict[str, str]) -> dict[str, int]:
    names = {f"regard.{file.removesuffix('.py').replace('/', '.')}": file for file in files}
    count = collections.Counter(
        names[found] for name, file in names.items() for found in _imports(files[file], name) if found in names
    )
    return {file: count[file] for file in files if not file.endswith("__init__.py")}


@cache
def measure() -> dict[str, int]:
    """Return each number by its name."""
    files = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
    endings = {".js", ".css", ".html", ".c", ".h", ".yaml"}
    others = [path for path in ROOT.rglob("*") if path.suffix in endings]
    trees = {name: ast.parse(text) for name, text in files.items()}
    lines = {name: len(text.splitlines()) for name, text in files.items()}
    functions = [one for tree in trees.values() for one in _functions(tree)]
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    methods = [sum(isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) for one in kind.body) for kind in classes]
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    twice = collections.Counter(kind.name for kind in classes)
    return {
        "lines": sum(lines.values()) + sum(len(path.read_text(encoding="utf-8").splitlines()) for path in others),
        "files": len(files) + len(others),
        "Python files": len(files),
        "lines of imports": sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in imports),
        "files with fewer than 40 lines": sum(n < 40 for name, n in lines.items() if not name.endswith("__init__.py")),
        "files with one importer": sum(count == 1 for count in _importers(files).values()),
        "functions with more than 8 parameters": sum(_parameters(one) > 8 for one in functions),
        "classes with more than 20 methods": sum(count > 20 for count in methods),
        "class flags": sum(_is_flag(node) for kind in classes for node in kind.body),
        "class names that exist twice": sum(count > 1 for count in twice.values()),
        "functions named by a participle": sum(
            bool(PARTICIPLE.match(one.name)) for one in functions if not _is_property(one)
        ),
        "vague names": sum(_vague_names(tree) for tree in trees.values()),
        "idioms in docstrings and errors": sum(
            bool(IDIOM.search(text)) for tree in trees.values() for text in _prose(tree)
        ),
        "Any": sum(len(re.findall(r"\bAny\b", text)) for text in files.values()),
        "isinstance": sum(text.count("isinstance(") for text in files.values()),
    }


@pytest.mark.parametrize("name", CEILINGS)
def test_no_number_grows(name):
    assert measure()[name] <= CEILINGS[name]


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:42} {value:7,}")
