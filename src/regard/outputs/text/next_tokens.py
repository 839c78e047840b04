"""The most probable tokens at each step of a given output, in one pass through the model.

p(y_t | y_<t, x) = softmax(W f_t),     the five largest for every t
"""

from collections.abc import Callable, Sequence

from jaxtyping import Float
from torch import Tensor

from regard.data.tokenizer import Tokenizer
from regard.look.said import NextToken
from regard.outputs.text.token_pieces import MOST, next_tokens_of

AT_ONCE = 64  # steps per batch: the probabilities of all steps over a large vocabulary would not fit


def most_probable(
    logits: Callable[[Tensor], Tensor], features: Float[Tensor, "T D"], tokens: Sequence[int], tokenizer: Tokenizer
) -> tuple[tuple[NextToken, ...], ...]:
    """Return the most probable tokens. `features`: the decoder's features before each step; `tokens`: the output."""
    found = []
    for some in features.split(AT_ONCE):
        known = logits(some).float().log_softmax(-1)
        tops = known.topk(min(MOST, known.shape[-1]))
        for values, ids in zip(tops.values.tolist(), tops.indices.tolist(), strict=True):
            found.append(next_tokens_of(tokens[: len(found)], ids, values, tokenizer))
    return tuple(found)
