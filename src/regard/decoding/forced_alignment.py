"""Where each token of a text lies in time: the most probable single path of CTC that reads it (Viterbi). No torch."""

from typing import Any

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
