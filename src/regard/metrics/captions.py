"""Scores of captions against several references: BLEU-1 to 4 and CIDEr-D.

Captions are compared as the COCO evaluation does (Chen et al. 2015, section 3, arXiv:1504.00325): lower case, words as
`regard.corpora.words` cuts them, punctuation left out. BLEU is that of a corpus, with brevity penalty by the nearest
reference length and no smoothing; BLEU-n goes up to n-grams of n.

CIDEr-D (Vedantam et al. 2014, section 6, arXiv:1411.5726), for the caption c of one picture with references s_1 … s_m:

    g_k(c) = tf_k(c) · log( pictures / pictures with a reference that has the n-gram k )
    CIDEr-D_n = 10/m Σ_j exp(−(|c| − |s_j|)² / 2σ²) · Σ_k min(g_k(c), g_k(s_j)) g_k(s_j) / (‖g(c)‖ ‖g(s_j)‖)

σ = 6; the mean over n = 1 … 4, and over pictures. As in the COCO code, words are not stemmed, and tf is a count.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from regard.errors import CallError

WORD = re.compile(r"\w+(?:['’-]\w+)*")
SIGMA, LONGEST = 6.0, 4
SIGNATURE = "lower case, no punctuation, corpus BLEU with the nearest reference length, no smoothing"

Gram = tuple[str, ...]


def plain_words(text: str) -> list[str]:
    """Return the words in lower case, without punctuation."""
    return WORD.findall(text.lower())


def caption_bleu(said: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """{"bleu1": ..., "bleu4": ...}, 0 to 100."""
    from sacrebleu.metrics.bleu import BLEU

    _require_pairs(said, references)
    hypotheses = [" ".join(plain_words(text)) for text in said]
    lists = [[" ".join(plain_words(text)) for text in given] for given in references]
    most = max(map(len, lists))
    streams = [[given[i] if i < len(given) else None for given in lists] for i in range(most)]
    scores = {}
    for n in range(1, LONGEST + 1):
        metric = BLEU(tokenize="none", smooth_method="none", max_ngram_order=n, force=True)
        scores[f"bleu{n}"] = float(metric.corpus_score(hypotheses, streams).score)  # pyright: ignore[reportArgumentType]
    return scores


def cider(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return CIDEr-D, 0 to 10; document frequencies are those of the given references."""
    _require_pairs(hypotheses, references)
    counted = [[_grams(plain_words(text)) for text in given] for given in references]
    pictures: Counter[Gram] = Counter()
    for given in counted:
        pictures.update({gram for one in given for grams in one for gram in grams})
    logs = {gram: math.log(len(hypotheses)) - math.log(count) for gram, count in pictures.items()}
    unseen = math.log(len(hypotheses))
    total = 0.0
    for text, given in zip(hypotheses, counted, strict=True):
        own = [_weigh(grams, logs, unseen) for grams in _grams(plain_words(text))]
        length = len(plain_words(text))
        for one in given:
            penalty = math.exp(-((length - sum(one[0].values())) ** 2) / (2 * SIGMA**2))
            others = [_weigh(grams, logs, unseen) for grams in one]
            alike = [_similarity(a, b) for a, b in zip(own, others, strict=True)]
            total += penalty * sum(alike) / LONGEST / len(given)
    return 10 * total / len(hypotheses)


def _grams(words: Sequence[str]) -> list[Counter[Gram]]:
    return [Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for n in range(1, LONGEST + 1)]


def _weigh(grams: Counter[Gram], logs: dict[Gram, float], unseen: float) -> dict[Gram, float]:
    return {gram: count * logs.get(gram, unseen) for gram, count in grams.items()}


def _similarity(own: dict[Gram, float], other: dict[Gram, float]) -> float:
    lengths = math.sqrt(sum(x * x for x in own.values())) * math.sqrt(sum(x * x for x in other.values()))
    shared = sum(min(value, other[gram]) * other[gram] for gram, value in own.items() if gram in other)
    return shared / lengths if lengths else 0.0


def _require_pairs(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if len(hypotheses) != len(references):
        raise CallError(f"{len(hypotheses)} captions but references for {len(references)} pictures")
    if not hypotheses:
        raise CallError("nothing to score: no captions were given")
    for number, given in enumerate(references):
        if not given:
            raise CallError(f"picture {number} (counted from 0) has no reference")


# The pointing game: whether the region of largest weight is in the right box. Zhang et al. 2016, section 4.2
# (arXiv:1608.00507), whose 15 pixels of tolerance are left out: a region is larger than that.

Box = tuple[float, float, float, float]  # top, left, bottom, right, in the units of the picture's size


class Pointed(NamedTuple):
    """`chance`: how often a blind pick of a region would be a hit."""

    hit: bool
    chance: float


def points_at_box(
    weights: Float[np.ndarray, " K"], grid: tuple[int, int], size: tuple[int, int], boxes: Sequence[Box]
) -> Pointed:
    """Whether the middle of the most attended region lies in one of the boxes.

    `size`: height and width of the picture, in pixels; 1 and 1 where boxes are shares of it.
    """
    (rows, columns), (height, width) = grid, size
    row, column = np.divmod(np.arange(rows * columns), columns)
    down, right = (row + 0.5) * height / rows, (column + 0.5) * width / columns
    inside = np.zeros(rows * columns, bool)
    for top, left, bottom, end in boxes:
        inside |= (down >= top) & (down < bottom) & (right >= left) & (right < end)
    return Pointed(bool(inside[weights.argmax()]), float(inside.mean()))


def pointing_scores(found: Sequence[Pointed]) -> dict[str, float]:
    """Return the scores in percent; empty without boxes."""
    if not found:
        return {}
    return {
        "pointing": 100 * float(np.mean([one.hit for one in found])),
        "pointing_uniform": 100 * float(np.mean([one.chance for one in found])),
    }
