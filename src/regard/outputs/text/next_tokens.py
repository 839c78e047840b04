"""What a decoder found most probable at each step of a given output: one pass through the model for all steps.

p(y_t | y_<t, x) = softmax(W f_t),     the largest five of it for every t
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizer import Tokenizer
from regard.look.answer import NextToken

MOST = 5
AT_ONCE = 64  # steps whose probabilities are there at a time: all of them, over a large vocabulary, would not fit
BEFORE = 8  # tokens that may decide how the next one is written


@runtime_checkable
class HasLogits(Protocol):
    def logits(self, features: Tensor, /) -> Tensor: ...


def most_probable(
    model: HasLogits, features: Float[Tensor, "T D"], tokens: Sequence[int], tokenizer: Tokenizer
) -> tuple[tuple[NextToken, ...], ...]:
    """`features`: what the decoder knew before each step; `tokens`: what was written."""
    found = []
    for some in features.split(AT_ONCE):
        known = model.logits(some).float().log_softmax(-1)
        tops = known.topk(min(MOST, known.shape[-1]))
        for values, ids in zip(tops.values.tolist(), tops.indices.tolist(), strict=True):
            found.append(_step(tokens[: len(found)][-BEFORE:], ids, values, tokenizer))
    return tuple(found)


def _step(
    before: Sequence[int], ids: Sequence[int], values: Sequence[float], tokenizer: Tokenizer
) -> tuple[NextToken, ...]:
    begin = len(tokenizer.decode(before))
    pieces = (tokenizer.decode([*before, index])[begin:] for index in ids)
    return tuple(map(NextToken, tokenizer.labels(ids), pieces, values))
