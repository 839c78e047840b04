"""Reader of a lock file: the process that trains in a folder."""

import re
from pathlib import Path
from typing import NamedTuple

LOCK = "lock"


class Holder(NamedTuple):
    process: int
    host: str


def holder(file: Path) -> Holder | None:
    """Return the process that wrote the lock file, if the file exists; the process may be dead."""
    try:
        found = re.match(r"process (\d+) on (\S+), since", file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return None if found is None else Holder(int(found[1]), found[2])
