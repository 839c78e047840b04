"""JSON Lines: one JSON object a line (jsonlines.org), plain or compressed, with errors reported by line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.files.lines import Line, read_lines


def read_jsonl(path: Path) -> Iterator[tuple[Line, dict[str, Any] | None]]:
    """Yield each line with its object; None for an invalid one, such as the last line of a truncated file.

    `problem` of the line then gives the reason.
    """
    for line in read_lines(path):
        if line.problem:
            yield line, None
        elif not line.text.strip():
            yield line._replace(problem="blank line", kind="blank"), None
        else:
            yield _parsed(line)


def _parsed(line: Line) -> tuple[Line, dict[str, Any] | None]:
    try:
        found = json.loads(line.text)
    except (ValueError, RecursionError) as problem:
        return line._replace(problem=f"not JSON ({problem})"), None
    if not isinstance(found, dict):
        return line._replace(problem='not a JSON object; each line must be one, like {"name": ...}'), None
    return line, found
