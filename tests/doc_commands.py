"""What README.md and docs/*.md print for readers to type: commands, and Python.

A block under `<!-- not run: REASON -->` is parsed and not run. Nor is a command with a word in capitals (RUN, FILE),
which stands for something else, one between words, and one of `NOT_HERE`. All others are run as they are printed, in
the order of their page, by an installed wheel in a folder where there is nothing but `examples` (`doc_runner.py`).
"""

import ast
import re
import shlex
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_HERE = {
    "docker": "it needs Docker",
    "make": "it needs the repository",
    "pip": "it needs a network",
    "python": "it needs the repository",  # benchmarks/
    "torchrun": "processes of their own: tests/test_training_parallel.py has them",
}
SHELL = ("curl", "cut", "head", "printf", *NOT_HERE)
MARK = re.compile(r"<!-- not run: (.+) -->")
COMMENT = re.compile(r"\s+# .*")
INLINE = re.compile(r"`(regard [a-z]+ [^`]+)`")
ASSIGNED = re.compile(r"(?:[A-Z_]+=\S+ |[a-z]+=\$\()?")  # before the program: OMP_NUM_THREADS=1, name=$(


class Step(NamedTuple):
    """One command or one block of Python. `reason`: why it is not run; empty if it is."""

    page: str  # its path from the root
    kind: Literal["regard", "shell", "python"]
    text: str
    reason: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """Of a command, without `regard`."""
        return tuple(shlex.split(self.text))[1:]

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


class Block(NamedTuple):
    """`language`: as its fence says; empty if it has none."""

    language: str
    lines: list[str]
    reason: str
    fenced: bool

    @property
    def is_python(self) -> bool:
        """Whether some lines of it call or import something, and so are no picture of data."""
        return any(map(_calls, "\n".join(self.lines).split("\n\n")))


def _calls(code: str) -> bool:
    try:
        lines = ast.parse(code).body
    except SyntaxError:
        return False
    kinds = (ast.Import, ast.ImportFrom, ast.With, ast.For)
    return any(isinstance(one, kinds) or isinstance(getattr(one, "value", None), ast.Call) for one in lines)


def parts_of(page: Path) -> list[Block | str]:
    """Blocks of code, and lines of text, in their order."""
    found: list[Block | str] = []
    reason, inside = "", None
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = None if inside and inside.fenced else Block(line[3:], [], reason, fenced=True)
            found += [inside] if inside else []
            reason = ""
        elif inside and (inside.fenced or line.startswith("    ") or not line):
            inside.lines.append(line if inside.fenced else line[4:])
        elif line.startswith("    "):
            inside, reason = Block("", [line[4:]], reason, fenced=False), ""
            found.append(inside)
        else:
            mark = MARK.fullmatch(line)
            inside, reason = None, mark[1] if mark else reason if not line else ""
            found.append(line)
    return found


def steps_of(page: Path) -> list[Step]:
    name, found = str(page.relative_to(ROOT)), []
    for part in parts_of(page):
        if isinstance(part, str):
            texts = [one for text in INLINE.findall(part) for one in text.split(" && ")]
            found += [Step(name, "regard", one, "between words") for one in texts if one.startswith("regard ")]
        elif part.language == "python":
            found.append(Step(name, "python", "\n".join(part.lines) + "\n", part.reason))
        else:
            for line in "\n".join(part.lines).replace("\\\n", "").split("\n"):
                found += [Step(name, *one) for one in _commands(line.removeprefix("$ "), part.reason)]
    return [one for one in found if one.kind != "regard" or "..." not in one.words]


def _commands(line: str, reason: str) -> list[tuple[Literal["regard", "shell"], str, str]]:
    text = COMMENT.sub("", line)
    program = ASSIGNED.sub("", text, count=1).partition(" ")[0]
    if program in SHELL and " " in text:
        return [("shell", text, reason or NOT_HERE.get(program, ""))]
    if not re.match(r"regard [a-z]", text):
        return []
    stands_for = "a word stands for something else"
    return [
        ("regard", one, reason or stands_for * any(word.isupper() and word.isalpha() for word in shlex.split(one)))
        for one in text.split(" && ")
    ]


STEPS = {str(page.relative_to(ROOT)): steps_of(page) for page in PAGES}
COMMANDS = [step for steps in STEPS.values() for step in steps if step.kind == "regard"]
