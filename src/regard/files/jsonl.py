"""JSON Lines: one JSON object a line (jsonlines.org), also packed, with whatever is wrong told line by line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.files.lines import Line, read_lines


def read_jsonl(path: Path) -> Iterator[tuple[Line, dict[str, Any] | None]]:
    """Each line and its object; None for a line that has none, as the last one of a file that was cut off.

    The line then says why (`problem`).
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
