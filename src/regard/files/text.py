"""Read a text that fits in memory."""

import sys
from pathlib import Path

from regard.errors import CallError


def read_text(file: str) -> str:
    """Return the text of a file, or of standard input for `-`."""
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CallError(f"{file} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise CallError(f"{file}: {error.strerror}") from None
