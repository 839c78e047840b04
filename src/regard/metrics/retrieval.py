"""How well vectors find their partners: recall at 1 and mean reciprocal rank.

    rank_i = 1 + #{j : s_ij > s_ii},     recall@1 = mean of [rank_i = 1],     MRR = mean of 1 / rank_i

Manning et al. 2008, "Introduction to Information Retrieval", chapter 8; MRR: Voorhees 1999 (TREC-8). Equal scores
count for the partner, so that texts that occur twice do no harm.
"""

import numpy as np
from jaxtyping import Float

ROWS = 1024  # of the table of scores, at a time


def ranks(queries: Float[np.ndarray, "N D"], answers: Float[np.ndarray, "N D"]) -> Float[np.ndarray, " N"]:
    """The rank of answer i among all answers, by the dot product with query i."""
    found = []
    for start in range(0, len(queries), ROWS):
        scores = queries[start : start + ROWS] @ answers.T
        own = scores[np.arange(len(scores)), np.arange(start, start + len(scores))]
        found.append(1.0 + (scores > own[:, None] + 1e-6).sum(1))
    return np.concatenate(found) if found else np.empty(0)


def retrieval(sources: Float[np.ndarray, "N D"], targets: Float[np.ndarray, "N D"]) -> dict[str, float]:
    """Of vectors of length 1: sources look for their targets, and the other way round; the mean of both."""
    both = np.concatenate([ranks(sources, targets), ranks(targets, sources)])
    return {"recall_at_1": float((both == 1).mean()), "mrr": float((1 / both).mean())}
