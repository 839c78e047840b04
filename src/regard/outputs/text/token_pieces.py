"""The most probable tokens of one step, by name, and what each of them would add to the text."""

from collections.abc import Sequence

from regard.data.tokenizer import Tokenizer
from regard.look.said import NextToken

MOST = 5
BEFORE = 8  # tokens that may decide how the next one is written


def next_tokens_of(
    before: Sequence[int], ids: Sequence[int], log_probabilities: Sequence[float], tokenizer: Tokenizer
) -> tuple[NextToken, ...]:
    """After the tokens `before`."""
    before = before[-BEFORE:]
    begin = len(tokenizer.decode(before))
    pieces = (tokenizer.decode([*before, index])[begin:] for index in ids)
    return tuple(map(NextToken, tokenizer.labels(ids), pieces, log_probabilities))
