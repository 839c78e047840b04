"""`regard index RUN FOLDER -o FILE` and `regard search FILE TEXT`: search your pictures by their content."""

import sys
from pathlib import Path
from typing import Any

from regard import api
from regard.errors import CallError
from regard.search import about_bad, make_index, open_index, read_index


def index(run: Path, folder: Path, output: Path) -> dict[str, Any]:
    """Create or update an index; return a summary."""
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise CallError(f"-o {output}: is {'a folder' if output.is_dir() else 'in a folder that does not exist'}")
    known = read_index(output) if output.exists() else None
    made = make_index(api.load(run), folder, known=known, tell=_tell)
    for line in about_bad(made.bad):
        _tell(line)
    made.save(output)
    return {"index": str(output), "pictures": len(made), "bad": made.bad}


def search(file: Path, text: str | None, like: Path | None, k: int, run: Path | None) -> list[dict[str, Any]]:
    if (text is None) == (like is None):
        raise CallError('nothing to search for: give a text, such as "two dogs on a beach", or --like PICTURE')
    found = open_index(file, run)
    best = found.search(text, k) if text is not None else found.like(like, k)
    return [{"picture": one.name, "score": one.score} for one in best]


def _tell(message: str) -> None:
    print(f"regard: {message}", file=sys.stderr)
