"""Second input for patching: the first one with a word replaced."""

import re
from typing import Any

from regard.errors import CallError


def exchanged(text: Any, words: str) -> str:
    """Replace words in a text; `words` is "OLD=NEW", such as "red=blue"."""
    old, equals, new = (part.strip() for part in words.partition("="))
    if not (old and equals and new):
        raise CallError(f"exchange={words!r}: write OLD=NEW, a word of the input and the one in its place: red=blue")
    if not isinstance(text, str):
        raise CallError("exchange= belongs to an input that is a text; against_input= takes a second one of any kind")
    found, count = re.subn(rf"(?<!\w){re.escape(old)}(?!\w)", lambda match: new, text)
    if not count:
        raise CallError(f"exchange={words!r}: there is no word {old!r} in the input {text!r}")
    return found
