"""The most probable tokens of one step by name, and the text that each would add."""

from collections.abc import Sequence

from regard.data.tokenizer import Tokenizer
from regard.look.said import NextToken

MOST = 5
BEFORE = 8  # previous tokens that may affect the spelling of the next one


def next_tokens_of(
    before: Sequence[int], ids: Sequence[int], log_probabilities: Sequence[float], tokenizer: Tokenizer
) -> tuple[NextToken, ...]:
    """Return the next tokens after the tokens `before`."""
    before = before[-BEFORE:]
    begin = len(tokenizer.decode(before))
    pieces = (tokenizer.decode([*before, index])[begin:] for index in ids)
    return tuple(map(NextToken, tokenizer.labels(ids), pieces, log_probabilities))
