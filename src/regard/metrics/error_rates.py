"""Error rates by edit distance, for jobs where every token counts: spelling, speech.

    error rate = Σ distance(hypothesis, nearest reference) / Σ length(nearest reference)

Of several references the nearest counts (the first of equals), as in work on the CMU dictionary.
"""

from collections.abc import Sequence

from regard.errors import CallError

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
