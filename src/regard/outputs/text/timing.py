"""When each token of a text was written down, for any input whose axis has times: seconds of sound, days.

attention     the moment before and after which a token has half of its weight over the input
peak          when it has most of it
expectation   Σ_k a_tk time_k
ctc           the middle of the stretch that CTC gives it, in models that have CTC
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

Edges = Float[np.ndarray, " K1"]  # when each vector of the memory begins, and when the last one ends: `Axis.edges`


def readings(seen: CrossAttention, tokens: int, edges: Edges) -> dict[str, Float[np.ndarray, " T"]]:
    """When each token was heard, by every way of reading it that the model has."""
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
    """From when to when each token was heard: by CTC if the model has it, else by the middle of its attention."""
    if seen.ctc is not None:
        return _stretches(seen.ctc, edges)
    return middle_spans(seen.mean[:tokens], edges) if seen.weights else None


def _stretches(vectors: Sequence[tuple[int, int]], edges: Edges) -> Float[np.ndarray, "T 2"]:
    """From the beginning of a first vector to the end of a last one."""
    return edges[np.array(vectors, np.int64).reshape(-1, 2) + np.array([0, 1])]


def heard(
    tokenizer: Tokenizer, ids: Ids, seen: CrossAttention, axis: Axis, item: SoundItem
) -> tuple[tuple[Heard, ...], tuple[Heard, ...]]:
    """Words and tokens of one window, with their times in the whole recording; none of a model that cannot tell."""
    times = spans(seen, len(ids), axis.edges) if ids else None
    if times is None:
        return (), ()
    inside = (item.start + np.clip(times, 0.0, item.seconds)).tolist()
    tokens = tuple(Heard(label, *span) for label, span in zip(tokenizer.labels(ids), inside, strict=True))
    return tuple(words_heard(tokenizer, ids, tokens)), tokens


def words_heard(tokenizer: Tokenizer, ids: Ids, tokens: Sequence[Heard]) -> list[Heard]:
    """What spaces separate, each from the first to the last of its tokens."""
    text, found, place = tokenizer.decode(ids), [], 0
    placed = list(zip(tokenizer.decoded_spans(ids), tokens, strict=True))
    for word in text.split():
        start = text.index(word, place)
        place = start + len(word)
        own = [token for span, token in placed if span.start < place and span.end > start]
        if own:
            found.append(Heard(word, min(token.start for token in own), max(token.end for token in own)))
    return found
