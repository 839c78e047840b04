"""Every score of text against references that the field uses."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from regard.metrics.by_length import bleu_by_length
from regard.metrics.error_rates import sequence_error_rate, token_error_rate
from regard.metrics.text import bleu, chrf, exact_match, ter


class TextScores(NamedTuple):
    """Scores by name; how BLEU was computed; and BLEU by the length of sources."""

    values: dict[str, float]
    signature: str
    by_length: list[dict[str, Any]]
    percent: tuple[str, ...] = ("ter", "exact_match", "token_error_rate", "sequence_error_rate")


def text_scores(sources: Sequence[str], said: Sequence[str], references: Sequence[str]) -> TextScores:
    """Compute BLEU, chrF and TER line by line, as usual, so that they can be compared. Exact match and error
    rates accept any reference of the same source: a word may have several pronunciations.
    """
    found = [bleu(said, references), chrf(said, references), ter(said, references)]
    answers: dict[str, dict[str, None]] = {}
    for source, reference in zip(sources, references, strict=True):
        answers.setdefault(source, {})[reference] = None
    output = dict(zip(reversed(sources), reversed(said), strict=True))  # the first of equal sources
    outputs = [output[source] for source in answers]
    right = [list(several) for several in answers.values()]
    tokens, right_tokens = [text.split() for text in outputs], [[r.split() for r in several] for several in right]
    values = {
        **{score.name.lower(): score.score for score in found},
        "exact_match": exact_match(outputs, right),
        "token_error_rate": token_error_rate(tokens, right_tokens),
        "sequence_error_rate": sequence_error_rate(tokens, right_tokens),
        "sentences": float(len(said)),
    }
    rows = [
        {"words": part.label, "sentences": part.count, "bleu": part.bleu}
        for part in bleu_by_length(sources, said, references)
    ]
    return TextScores(values, found[0].signature, rows)
