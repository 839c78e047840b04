"""The user's recipe as a file: every decided value with its reason beside it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from regard.files import atomic

if TYPE_CHECKING:
    from regard.auto.plan import Planned

_WIDTH = 46  # column where reasons begin


RECIPE = "recipe.yaml"


def note_time_limit(folder: Path, seconds: float) -> None:
    """Change the limit of training in the recipe of a folder, if it has one."""
    file = folder / RECIPE
    if file.is_file():
        text = file.read_text(encoding="utf-8")
        atomic.write_text(file, re.sub(r"(?m)^  time_limit: \S+", f"  time_limit: {seconds}", text, count=1))


def as_yaml(planned: "Planned", data: str) -> str:
    head = [f"# A recipe made for {data}", "# Change what you like, then: regard train THIS_FILE -o RUN", ""]
    return "\n".join([*head, *_lines(planned.tree, planned.reasons, ())]) + "\n"


def _lines(tree: Mapping[str, Any], reasons: Mapping[str, str], path: tuple[str, ...]) -> Iterator[str]:
    last = ""
    for key, value in tree.items():
        pad, dotted = "  " * len(path), ".".join((*path, str(key)))
        if isinstance(value, Mapping) and value and dotted not in reasons:
            yield f"{pad}{key}:"
            yield from _lines(value, reasons, (*path, str(key)))
            continue
        style = '"' if "\\n" in repr(value) else None  # else a line feed would be one in the file
        written = yaml.safe_dump(value, default_flow_style=True, default_style=style, width=10**6, allow_unicode=True)
        line = f"{pad}{key}: {written.removesuffix(chr(10)).removesuffix(chr(10) + '...')}"
        why = reasons.get(dotted, "")
        yield f"{line:<{_WIDTH}} # {'〃' if why == last else why}".rstrip() if why else line
        last = why
