"""Retrieval scores of vectors: recall, mean reciprocal rank, median rank.

    rank_i = 1 + #{j wrong : s_ij > s_i} + #{j wrong : s_ij = s_i} / 2        s_i = max of s_ik over the k right for i
    recall@k = mean of [rank_i ≤ k],     MRR = mean of 1 / rank_i

Manning et al. 2008, "Introduction to Information Retrieval", chapter 8; MRR: Voorhees 1999 (TREC-8). With several right
answers, one of them among the first k is enough, as for pictures with five captions (Hodosh et al. 2013, section 5.1).
Half of the wrong answers with an equal score rank before the right one, as on average in random order: a model
with the same vector for every text is at chance. A NaN score is a miss. Answers with the same text
are all right.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

ROWS = 1024  # of the table of scores, at a time
SAME = 1e-6  # scores that differ by no more are equal
AT = (1, 5, 10)


def ranks(
    queries: Float[np.ndarray, "N D"], answers: Float[np.ndarray, "M D"], right: Sequence[Sequence[int]] | None = None
) -> Float[np.ndarray, " N"]:
    """Return the rank of the best right answer among all answers, by the dot product with query i.

    `right`: the answers that are right for each query; by default answer i for query i.
    """
    right = [[number] for number in range(len(queries))] if right is None else right
    found = []
    for start in range(0, len(queries), ROWS):
        scores = queries[start : start + ROWS] @ answers.T
        own = np.empty(len(scores))
        for row, some in enumerate(right[start : start + ROWS]):
            own[row] = scores[row, list(some)].max()
            scores[row, list(some)] = -np.inf  # right answers do not compete with each other
        equal = abs(scores - own[:, None]) <= SAME
        below = scores < own[:, None] - SAME
        rank = 1.0 + (~(below | equal)).sum(1) + equal.sum(1) / 2
        found.append(np.where(np.isnan(own), len(answers) + 1.0, rank))
    return np.concatenate(found) if found else np.empty(0)


def retrieval(
    sources: Float[np.ndarray, "N D"], targets: Float[np.ndarray, "N D"], pairs: Sequence[tuple[str, str]]
) -> dict[str, float]:
    """Return the scores of unit vectors of these pairs: the mean of both directions of `partner_ranks`."""
    both = np.concatenate(partner_ranks(sources, targets, pairs))
    return {"recall_at_1": float((both == 1).mean()), "mrr": float((1 / both).mean())}


def partner_ranks(
    sources: Float[np.ndarray, "N D"], targets: Float[np.ndarray, "N D"], pairs: Sequence[tuple[str, str]]
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Return the rank of each target for its source, and of each source for its target.

    If a text occurs in several pairs, each of them is right.
    """
    there = ranks(sources, targets, _same([target for _, target in pairs]))
    return there, ranks(targets, sources, _same([source for source, _ in pairs]))


def _same(texts: Sequence[str]) -> list[list[int]]:
    """For each text the places where it occurs."""
    places: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        places.setdefault(text, []).append(place)
    return [places[text] for text in texts]


def places_of(texts: Sequence[Sequence[str]]) -> list[list[int]]:
    """The places of the captions that are right for each picture, among all captions one after the other."""
    places: dict[str, list[int]] = {}  # equal captions
    for place, text in enumerate(text for some in texts for text in some):
        places.setdefault(text, []).append(place)
    return [[place for text in dict.fromkeys(some) for place in places[text]] for some in texts]


def recall(ranks: Float[np.ndarray, " N"], at: int) -> float:
    """In percent."""
    return 100 * float((ranks <= at).mean()) if len(ranks) else 0.0


def blind_recall(right: Sequence[Sequence[int]], answers: int, at: int) -> float:
    """Return the mean `recall` of answers in random order: 1 − Π_{j<k} (M − r − j) / (M − j), in percent."""
    steps = np.arange(min(at, answers))
    missed = [np.prod(np.clip(answers - len(some) - steps, 0, None) / (answers - steps)) for some in right]
    return 100 * (1 - float(np.mean(missed))) if missed else 0.0


class BothWays(NamedTuple):
    """Recalls by name, and a table with the values at chance."""

    values: dict[str, float]
    rows: list[dict[str, Any]]


def retrieval_both_ways(
    images: Float[np.ndarray, "N D"], captions: Float[np.ndarray, "M D"], texts: Sequence[Sequence[str]]
) -> BothWays:
    """Return recall at 1, 5, 10 and median rank, of pictures among all captions and of captions among pictures.

    `texts`: the captions of each picture, in the order of their vectors. A caption of two pictures
    is right for both.
    """
    owners: dict[str, list[int]] = {}  # the pictures of each caption
    said = [text for some in texts for text in some]
    for number, some in enumerate(texts):
        for text in dict.fromkeys(some):
            owners.setdefault(text, []).append(number)
    of_picture = places_of(texts)
    ways = {
        "image_to_text": (images, captions, of_picture),
        "text_to_image": (captions, images, [owners[text] for text in said]),
    }
    values: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    for way, (queries, answers, right) in ways.items():
        found = ranks(queries, answers, right)
        values |= {f"{way}_at_{most}": recall(found, most) for most in AT}
        values[f"{way}_median_rank"] = float(np.median(found)) if len(found) else 0.0
        for most in AT:
            blind = blind_recall(right, len(answers), most)
            row = {"way": way.replace("_", " "), "among": len(answers), "recall at": most}
            rows.append({**row, "percent": values[f"{way}_at_{most}"], "by chance": blind})
    return BothWays(values, rows)
