"""The file of a lock, as anybody may read it: who trains in a folder."""

import re
from pathlib import Path
from typing import NamedTuple

LOCK = "lock"


class Holder(NamedTuple):
    process: int
    host: str


def holder(file: Path) -> Holder | None:
    """Who has written the file of a lock, if it is there; whether that process still lives is another question."""
    try:
        found = re.match(r"process (\d+) on (\S+), since", file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return None if found is None else Holder(int(found[1]), found[2])
