"""Tokens of a prompt, as a language model reads them."""

from regard.data.tokenizer import Tokenizer
from regard.errors import CallError


def prompt_ids(tokenizer: Tokenizer, text: str, begin: bool | None, documents: str) -> list[int]:
    """Return the ids. A begin token comes first if texts start with one (`begin`; None: if `documents` are not whole
    files) or if the prompt is empty.
    """
    ids, special = tokenizer.encode(text), tokenizer.specials
    first = special.start if special.start is not None else special.end
    wanted = documents != "file" if begin is None else begin
    if ids and not (wanted and first is not None):
        return ids
    if first is None:
        raise CallError("an empty prompt needs a begin token, which this vocabulary does not have: give a prompt")
    return [first, *ids]
