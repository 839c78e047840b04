"""Where each token of a text lies in time: the most probable single path of CTC that reads it (Viterbi). No torch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

BLANK = 0
NEVER = -1e30  # log 0, but finite, so that differences are never NaN


def forced_alignment(scores: Any, tokens: list[int]) -> list[tuple[int, int]] | None:
    """The frames (first, last) of each token on the most probable path; None if there are too few frames.

    `scores`: log p[t, c], K V, a tensor or an array."""
    states = [BLANK]
    for token in tokens:
        states += [token, BLANK]
    K, S = len(scores), len(states)
    emitted = scores[:, states].tolist()
    best = [[NEVER] * S for _ in range(K)]
    origin = [[0] * S for _ in range(K)]
    best[0][0] = emitted[0][0]
    if S > 1:
        best[0][1] = emitted[0][1]
    for t in range(1, K):
        for s in range(S):
            skips = s >= 2 and states[s] != BLANK and states[s] != states[s - 2]
            options = [s, *([s - 1] if s else []), *([s - 2] if skips else [])]
            origin[t][s] = max(options, key=lambda o: best[t - 1][o])
            best[t][s] = max(NEVER, best[t - 1][origin[t][s]] + emitted[t][s])
    state = max(range(max(0, S - 2), S), key=lambda s: best[K - 1][s])
    if best[K - 1][state] <= NEVER / 2:
        return None
    frames: list[list[int]] = [[] for _ in tokens]
    for t in range(K - 1, -1, -1):
        if state % 2:
            frames[state // 2].append(t)
        state = origin[t][state]
    return [(found[-1], found[0]) for found in frames]


# Unknown words replaced through attention (PosUnk).
#
# An unknown word in the output is most often a name or a rare word, and attention shows its source word:
#
#     y_t = <unk>   →   dictionary(x_s) or x_s itself,      s = argmax_s a[t, s]
#
# Luong et al. 2014, section 3 (arXiv:1410.8206), with attention for the alignment as in Jean et al. 2014, section 4
# (arXiv:1412.2007). No torch.


def replace_unknown(
    words: Sequence[str],
    weights: Float[np.ndarray, "T S"],
    source_words: Sequence[str],
    *,
    unknown: str = "<unk>",
    dictionary: Mapping[str, str] | None = None,
) -> list[str]:
    """`weights[t, s]`: how much output word t looked at source word s. What is beyond the words is ignored."""
    known = dictionary or {}
    replaced = list(words)
    for place, word in enumerate(words):
        if word == unknown and source_words:
            source = source_words[int(weights[place, : len(source_words)].argmax())]
            replaced[place] = known.get(source, source)
    return replaced
