"""Scores of transcripts: error rates against references, and times against the truth.

    WER = (substitutions + deletions + insertions) / words of the references, over all of them       CER: of characters

As `jiwer` counts them. A transcript with many invented words can have an error rate above 100%.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from regard.errors import CallError, pip_install


def error_rates(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """Word and character error rate and what they are made of, in percent of the references' words; exact match."""
    try:
        import jiwer
    except ImportError:
        raise CallError(f"error rates of speech need the package jiwer: {pip_install('regard[audio]')}") from None
    if not hypotheses or len(hypotheses) != len(references):
        raise CallError(f"{len(hypotheses)} transcripts and {len(references)} references: they must pair up")
    if not any(reference.strip() for reference in references):
        raise CallError("no reference has a word, so there is no error rate")
    words = jiwer.process_words(list(references), list(hypotheses))
    count = words.hits + words.substitutions + words.deletions
    return {
        "wer": 100 * words.wer,
        "cer": 100 * jiwer.process_characters(list(references), list(hypotheses)).cer,
        "word_accuracy": 100 * (1 - words.wer),
        "exact_match": 100 * sum(map(_same, hypotheses, references)) / len(hypotheses),
        "substitutions": 100 * words.substitutions / count,
        "deletions": 100 * words.deletions / count,
        "insertions": 100 * words.insertions / count,
    }


def _same(text: str, reference: str) -> bool:
    return text.split() == reference.split()


@dataclass(frozen=True)
class Timing:
    """`inside`: the percentage of pieces heard within their interval. `off`: mean distance to its middle, seconds."""

    inside: float
    off: float


def timing(heard: Sequence[float], gold: Sequence[tuple[float, float]]) -> Timing:
    """Compare the predicted time of each piece of text with its true interval."""
    if not gold or len(heard) != len(gold):
        raise CallError(f"{len(heard)} times and {len(gold)} intervals: they must pair up")
    times, intervals = np.asarray(heard), np.asarray(gold)
    inside = (intervals[:, 0] <= times) & (times <= intervals[:, 1])
    return Timing(100 * float(inside.mean()), float(np.abs(times - intervals.mean(axis=1)).mean()))


def expected_times(weights: Float[np.ndarray, "T K"], times: Float[np.ndarray, " K"]) -> Float[np.ndarray, " T"]:
    """Return the mean attended time of each step: Σ_k a_tk time_k. Weights may sum to less than one."""
    return (weights @ times) / np.maximum(weights.sum(axis=1), 1e-9)


def median_times(weights: Float[np.ndarray, "T K"], edges: Float[np.ndarray, " K1"]) -> Float[np.ndarray, " T"]:
    """Return the median attended time of each step.

    A second peak at a neighbor shifts the mean. In a long sound, whose weight is spread over many
    vectors, that peak may be the highest single weight. The median is robust to both.
    """
    return middle_spans(weights, edges, share=0.0)[:, 0]


def peak_times(weights: Float[np.ndarray, "T K"], times: Float[np.ndarray, " K"]) -> Float[np.ndarray, " T"]:
    """Return the time of the largest weight of each step."""
    return times[weights.argmax(axis=1)]


def middle_spans(
    weights: Float[np.ndarray, "T K"], edges: Float[np.ndarray, " K1"], share: float = 0.8
) -> Float[np.ndarray, "T 2"]:
    """Return the attended interval of each step: the middle of the time, with `share` of its weight.

    `edges`: when each of the K vectors begins and, last, when the last one ends; weight is spread evenly in between.
    """
    total = np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)
    below = np.pad(np.cumsum(weights / total, axis=1), ((0, 0), (1, 0)))
    return np.array([np.interp([(1 - share) / 2, (1 + share) / 2], row, edges) for row in below])


# Error rates by edit distance, for jobs where every token counts: spelling, speech.
#
#     error rate = Σ distance(hypothesis, nearest reference) / Σ length(nearest reference)
#
# Of several references the nearest counts (the first of equals), as in work on the CMU dictionary.

Tokens = Sequence[str]  # words, phonemes, or the characters of a str


def edit_distance(left: Tokens, right: Tokens) -> int:
    """The least number of insertions, deletions and substitutions (Levenshtein 1966)."""
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.distance(left, right)


def token_error_rate(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> float:
    """Return percent. `references[i]` are all the right answers for `hypotheses[i]`, each a sequence of tokens.

    With phonemes it is the phoneme error rate, with words the word error rate, with a str the character error rate.
    """
    _check(hypotheses, references)
    distance = length = 0
    for hypothesis, right in zip(hypotheses, references, strict=True):
        nearest, size = min(((edit_distance(hypothesis, r), len(r)) for r in right), key=lambda found: found[0])
        distance += nearest
        length += size
    if not length:
        raise CallError("no reference has a token, so there is no error rate")
    return 100 * distance / length


def sequence_error_rate(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> float:
    """Return the percentage of hypotheses that equal none of their references: the word error rate of spelling."""
    _check(hypotheses, references)
    wrong = sum(
        all(list(hypothesis) != list(r) for r in right)
        for hypothesis, right in zip(hypotheses, references, strict=True)
    )
    return 100 * wrong / len(hypotheses)


def _check(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> None:
    if len(hypotheses) != len(references):
        raise CallError(f"{len(hypotheses)} hypotheses but {len(references)} references: they must pair up")
    if not hypotheses:
        raise CallError("nothing to score: no hypotheses were given")
    for i, right in enumerate(references):
        if not right:
            raise CallError(f"hypothesis {i} (counted from 0) has no reference")
