"""Random letters, followed by the same letters again: predictable only by looking back.

    qzdkwmqzdkwm        → the first half is unpredictable, the second is determined

To predict the letter after `q`, a model looks for the letter that followed `q` before: an induction head (Olsson et al.
2022, arXiv:2209.11895). It takes two layers: one where each token attends to its predecessor, and one that attends to
tokens whose predecessor equals the current token. This is the smallest corpus on which such heads appear.

As a pair, the target repeats the source: a copy task.
"""

from random import Random

from regard.corpora.pair import Pair
from regard.errors import CallError, nearest

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SHORTEST, LONGEST = 8, 16
SIZES = {"train": 12_000, "valid": 200, "test": 500}


def repeats(split: str) -> list[Pair]:
    """Return the texts of one split; a text of 8 letters is hardly ever sampled twice."""
    if split not in SIZES:
        raise CallError(f"repeats has no split {split!r}{nearest(split, SIZES)}")
    chance = Random(f"repeats {split}")
    found = []
    for _ in range(SIZES[split]):
        once = "".join(chance.sample(LETTERS, chance.randint(SHORTEST, LONGEST)))
        found.append(Pair(once + once, once))
    return found
