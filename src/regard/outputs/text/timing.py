"""The time of each token of a text, for any input whose axis has times: seconds of sound, days.

attention     the median of a token's weight over the input
peak          the time of the largest weight
expectation   Σ_k a_tk time_k
ctc           the middle of the token's interval by CTC, in models with CTC
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.data.tokenizer import Tokenizer
from regard.files.subtitles import Heard
from regard.inputs.sound.item import SoundItem
from regard.look.axis import Axis
from regard.metrics.speech import expected_times, median_times, middle_spans, peak_times
from regard.outputs.text.seen import CrossAttention, Ids

READINGS = ("attention", "peak", "expectation", "ctc")  # of all heads together

Edges = Float[np.ndarray, " K1"]  # start times of the vectors of the memory, and the end of the last one: `Axis.edges`


def readings(seen: CrossAttention, tokens: int, edges: Edges) -> dict[str, Float[np.ndarray, " T"]]:
    """Return the time of each token, by every reading that the model supports."""
    found = {}
    if seen.weights:
        mean, middles = seen.mean[:tokens], (edges[:-1] + edges[1:]) / 2
        found = {
            "attention": median_times(mean, edges),
            "peak": peak_times(mean, middles),
            "expectation": expected_times(mean, middles),
        }
    if seen.ctc is not None:
        found["ctc"] = _stretches(seen.ctc, edges).mean(axis=1)
    return found


def by_head(seen: CrossAttention, tokens: int, edges: Edges) -> dict[str, Float[np.ndarray, " T"]]:
    return {
        f"{name} head {head}": median_times(table[:tokens], edges)
        for name, heads in seen.weights.items()
        for head, table in enumerate(heads)
    }


def spans(seen: CrossAttention, tokens: int, edges: Edges) -> Float[np.ndarray, "T 2"] | None:
    """Return the start and end of each token: by CTC if the model has it, else by the middle of its attention."""
    if seen.ctc is not None:
        return _stretches(seen.ctc, edges)
    return middle_spans(seen.mean[:tokens], edges) if seen.weights else None


def _stretches(vectors: Sequence[tuple[int, int]], edges: Edges) -> Float[np.ndarray, "T 2"]:
    """Return the interval from the start of the first vector to the end of the last one."""
    return edges[np.array(vectors, np.int64).reshape(-1, 2) + np.array([0, 1])]


def heard(
    tokenizer: Tokenizer, ids: Ids, seen: CrossAttention, axis: Axis, item: SoundItem
) -> tuple[tuple[Heard, ...], tuple[Heard, ...]]:
    """Return words and tokens of one window with their times in the whole recording; empty if the model
    has no times.
    """
    times = spans(seen, len(ids), axis.edges) if ids else None
    if times is None:
        return (), ()
    inside = (item.start + np.clip(times, 0.0, item.seconds)).tolist()
    tokens = tuple(Heard(label, *span) for label, span in zip(tokenizer.labels(ids), inside, strict=True))
    return tuple(words_heard(tokenizer, ids, tokens)), tokens


def words_heard(tokenizer: Tokenizer, ids: Ids, tokens: Sequence[Heard]) -> list[Heard]:
    """Return the words between spaces, each from the start of its first token to the end of its last."""
    text, found, place = tokenizer.decode(ids), [], 0
    placed = list(zip(tokenizer.decoded_spans(ids), tokens, strict=True))
    for word in text.split():
        start = text.index(word, place)
        place = start + len(word)
        own = [token for span, token in placed if span.start < place and span.end > start]
        if own:
            found.append(Heard(word, min(token.start for token in own), max(token.end for token in own)))
    return found
