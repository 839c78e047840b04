"""The commands that README.md and docs/*.md print.

A block of code under `<!-- not run: REASON -->` is parsed and not run: it needs data that does not come with regard, or
more than a few seconds. So is a command with a word in capitals (RUN, FILE), which stands for something else, and one
between words. All others are run as they are printed, in a folder where there is nothing but `examples`.
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARK = re.compile(r"<!-- not run: .+ -->")
LINE = re.compile(r"(?:\$ |    )(regard [a-z].*)")
COMMENT = re.compile(r"\s+# .*")
INLINE = re.compile(r"`(regard [a-z]+ [^`]+)`")


class Command(NamedTuple):
    page: str  # its path from the root
    words: tuple[str, ...]  # without `regard`
    runs: bool

    def __str__(self) -> str:
        return f"{self.page}: regard {shlex.join(self.words)}"


def commands_of(page: Path) -> list[Command]:
    """In their order: those of blocks, and those between words, which are never run."""
    found, marked, fenced, inside = [], False, False, False
    for line in page.read_text(encoding="utf-8").splitlines():
        match = LINE.fullmatch(line)
        fenced ^= line.startswith("```")
        if MARK.fullmatch(line):
            marked = True
        elif fenced or line.startswith(("    ", "```")):
            inside = True
        elif line or inside:  # a text, or the end of a block
            marked = inside = False
        for text in [match[1]] if match else INLINE.findall(line):
            for words in (tuple(shlex.split(part)) for part in COMMENT.sub("", text).split(" && ")):
                if words[:1] == ("regard",) and "..." not in words:
                    stands_for = any(word.isupper() and word.isalpha() for word in words)
                    found.append(
                        Command(str(page.relative_to(ROOT)), words[1:], bool(match) and not marked and not stands_for)
                    )
    return found


class Block(NamedTuple):
    """Python that a page shows; those of one page share their names, as in one session."""

    page: str
    code: str

    def run(self, names: dict[str, object]) -> None:
        exec(compile(self.code, f"{self.page}, a block of Python", "exec"), names)


def blocks_of(page: Path) -> list[Block]:
    """But for those under a mark."""
    found = re.finditer(r"(<!-- not run: .+ -->\n\n)?```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    return [Block(str(page.relative_to(ROOT)), block[2]) for block in found if block[1] is None]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
COMMANDS = [command for page in PAGES for command in commands_of(page)]
