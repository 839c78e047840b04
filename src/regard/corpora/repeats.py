"""Letters at random, and then the same letters once more: what a model can know only by looking back.

    qzdkwmqzdkwm        → of the first half nothing can be told, of the second one everything

Who has seen `q` before looks for what came after it: an induction head (Olsson et al. 2022, arXiv:2209.11895). It takes
two layers: one where each token looks at the one before it, and one that looks for tokens whose predecessor is the same
as the one that is read. So the corpus is the smallest on which such heads appear.

As a pair, a text is the letters once more: what a copier has to write.
"""

from random import Random

from regard.corpora.pair import Pair
from regard.errors import CallError, nearest

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SHORTEST, LONGEST = 8, 16
SIZES = {"train": 12_000, "valid": 200, "test": 500}


def repeats(split: str) -> list[Pair]:
    """Texts of one split; a text of 8 letters is hardly ever drawn twice."""
    if split not in SIZES:
        raise CallError(f"repeats has no split {split!r}{nearest(split, SIZES)}")
    chance = Random(f"repeats {split}")
    found = []
    for _ in range(SIZES[split]):
        once = "".join(chance.sample(LETTERS, chance.randint(SHORTEST, LONGEST)))
        found.append(Pair(once + once, once))
    return found
