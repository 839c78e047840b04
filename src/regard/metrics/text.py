"""Scores of text against references, as the field computes them: sacreBLEU (Post 2018, arXiv 1804.08771).

BLEU can only be compared with its signature (tokenization, case, smoothing, version), so every score has one.
A reference is a sentence, or several where any of them is right.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from regard.errors import CallError, nearest
from regard.metrics.speech import sequence_error_rate, token_error_rate

SCRIPTS = (  # blocks of Unicode
    ("Thai or Lao", "\u0e00", "\u0eff"),
    ("Tibetan", "\u0f00", "\u0fff"),
    ("Burmese", "\u1000", "\u109f"),
    ("Khmer", "\u1780", "\u17ff"),
    ("kana", "\u3040", "\u30ff"),
    ("Han", "\u3400", "\u9fff"),
    ("Han", "\uf900", "\ufaff"),
    ("kana", "\uff66", "\uff9f"),
    ("Han", "\U00020000", "\U0003ffff"),
)
References = Sequence[str] | Sequence[Sequence[str]]


@dataclass(frozen=True)
class TextScore:
    """0 to 100; of TER, an error rate, less is better and more than 100 possible."""

    name: str
    score: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.score:.1f} ({self.signature})"


def bleu(
    hypotheses: Sequence[str], references: References, *, lowercase: bool = False, tokenizer: str | None = None
) -> TextScore:
    """Corpus BLEU with sacreBLEU's own choices: exponential smoothing, mixed case.

    `tokenizer` is one of sacreBLEU's, by default that of the references' script; the signature names it.
    """
    from sacrebleu.metrics.bleu import BLEU

    chosen = tokenizer or tokenizer_for(references)
    if chosen not in BLEU.TOKENIZERS:
        raise CallError(f"tokenizer={chosen!r} is none of sacreBLEU's{nearest(chosen, BLEU.TOKENIZERS)}")
    try:
        metric = BLEU(lowercase=lowercase, tokenize=chosen)
    except (ImportError, RuntimeError) as error:
        raise CallError(f"tokenizer={chosen!r} is not installed: {str(error).strip()}") from None
    return _score("BLEU", metric, hypotheses, references)


def tokenizer_for(references: References) -> str:
    """13a where words have spaces between them, also in Korean; else char, zh for Chinese, ja-mecab where installed.

    13a takes a line without spaces for one word, and a single wrong character makes all of it wrong.
    """
    texts = (text for given in references for text in ([given] if isinstance(given, str) else given))
    letters = Counter(_script(letter) for text in texts for letter in text if letter.isalpha())
    without_spaces = letters.total() - letters["other"]
    if 2 * without_spaces <= letters.total():
        return "13a"
    if letters["kana"] > 0.05 * without_spaces:  # Japanese has Han, too; Chinese has no kana, or a name
        return "ja-mecab" if find_spec("MeCab") and find_spec("ipadic") else "char"
    return "zh" if 2 * letters["Han"] > without_spaces else "char"


def _script(letter: str) -> str:
    """The script of a letter, among those that put no spaces between words."""
    return next((name for name, first, last in SCRIPTS if first <= letter <= last), "other")


def chrf(hypotheses: Sequence[str], references: References) -> TextScore:
    """chrF2: F-score of character 6-grams (Popović 2015)."""
    from sacrebleu.metrics.chrf import CHRF

    return _score("chrF2", CHRF(), hypotheses, references)


def ter(hypotheses: Sequence[str], references: References) -> TextScore:
    """Edits, shifts of phrases among them, per reference word (Snover et al. 2006)."""
    from sacrebleu.metrics.ter import TER

    return _score("TER", TER(), hypotheses, references)


def exact_match(hypotheses: Sequence[str], references: References) -> float:
    """The share of hypotheses that equal a reference, in percent. Spaces at the ends do not count."""
    lists = _as_lists(hypotheses, references)
    right = sum(h.strip() in {r.strip() for r in given} for h, given in zip(hypotheses, lists, strict=True))
    return 100 * right / len(lists)


def bleu_counts(
    hypotheses: Sequence[str], references: References, *, tokenizer: str | None = None
) -> Float[np.ndarray, "N K"]:
    """Return what each sentence adds to corpus BLEU: both lengths, matching n-grams, and all n-grams."""
    from sacrebleu.metrics.bleu import BLEU

    lists = _as_lists(hypotheses, references)
    metric = BLEU(tokenize=tokenizer or tokenizer_for(references), effective_order=True, force=True)
    found = (metric.sentence_score(one, given) for one, given in zip(hypotheses, lists, strict=True))
    return np.array([[score.sys_len, score.ref_len, *score.counts, *score.totals] for score in found], np.float64)


def bleu_of(counts: Float[np.ndarray, " K"], *, smoothing: str = "exp") -> float:
    """Corpus BLEU of the sum of `bleu_counts`."""
    from sacrebleu.metrics.bleu import BLEU

    length, reference, *grams = (int(count) for count in counts)
    right, every = grams[: len(grams) // 2], grams[len(grams) // 2 :]
    return float(BLEU.compute_bleu(right, every, length, reference, smooth_method=smoothing).score)


def _score(name: str, metric: Any, hypotheses: Sequence[str], references: References) -> TextScore:
    lists = _as_lists(hypotheses, references)
    most = max(len(given) for given in lists)
    # sacreBLEU wants streams: the first references of all sentences, then the second ones, None where there is none.
    streams = [[given[i] if i < len(given) else None for given in lists] for i in range(most)]
    result = metric.corpus_score(hypotheses, streams)
    return TextScore(name, float(result.score), str(metric.get_signature()))


def _as_lists(hypotheses: Sequence[str], references: References) -> list[list[str]]:
    if len(hypotheses) != len(references):
        raise CallError(f"{len(hypotheses)} hypotheses but {len(references)} references: they must pair up")
    if not hypotheses:
        raise CallError("nothing to score: no hypotheses were given")
    lists = [[given] if isinstance(given, str) else list(given) for given in references]
    if not all(lists):
        raise CallError(f"hypothesis {lists.index([])} (counted from 0) has no reference")
    return lists


# BLEU by the length of the source.
#
# Bahdanau, Cho and Bengio 2015, figure 2 (arXiv 1409.0473).

EDGES = (1, 6, 11, 16, 21, 31, 41)


@dataclass(frozen=True)
class LengthBin:
    """Sources of `low` to `high` words (both included; None: and longer), how many, and their corpus BLEU."""

    low: int
    high: int | None
    count: int
    bleu: float

    @property
    def label(self) -> str:
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


def bleu_by_length(
    sources: Sequence[str], hypotheses: Sequence[str], references: References, edges: Sequence[int] = EDGES
) -> list[LengthBin]:
    """Return one bin from each edge up to the next, the last one open; words are separated by spaces.

    Sources shorter than the first edge belong to the first bin. Bins without a sentence are left out.
    """
    if not len(sources) == len(hypotheses) == len(references):
        raise CallError(
            f"{len(sources)} sources, {len(hypotheses)} hypotheses, {len(references)} references: must be equal"
        )
    if list(edges) != sorted(set(edges)) or not edges:
        raise CallError(f"edges={list(edges)} must grow from one to the next")
    members: list[list[int]] = [[] for _ in edges]
    for row, source in enumerate(sources):
        length = len(source.split())
        members[max(0, sum(edge <= length for edge in edges) - 1)].append(row)
    bins, tokenizer = [], tokenizer_for(references)  # the same for all bins
    for i, rows in enumerate(members):
        if rows:
            high = edges[i + 1] - 1 if i + 1 < len(edges) else None
            right: References = [references[r] for r in rows]  # pyright: ignore[reportAssignmentType]
            score = bleu([hypotheses[r] for r in rows], right, tokenizer=tokenizer)
            bins.append(LengthBin(edges[i], high, len(rows), score.score))
    return bins


# Every score of text against references that the field uses.


class TextScores(NamedTuple):
    """Scores by name; how BLEU was computed; and BLEU by the length of sources."""

    values: dict[str, float]
    signature: str
    by_length: list[dict[str, Any]]
    percent: tuple[str, ...] = ("ter", "exact_match", "token_error_rate", "sequence_error_rate")


def text_scores(sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]) -> TextScores:
    """Compute BLEU, chrF and TER line by line, as usual, so that they can be compared. Exact match and error
    rates accept any reference of the same source: a word may have several pronunciations.
    """
    found = [bleu(hypotheses, references), chrf(hypotheses, references), ter(hypotheses, references)]
    answers: dict[str, dict[str, None]] = {}
    for source, reference in zip(sources, references, strict=True):
        answers.setdefault(source, {})[reference] = None
    output = dict(zip(reversed(sources), reversed(hypotheses), strict=True))  # the first of equal sources
    outputs = [output[source] for source in answers]
    right = [list(several) for several in answers.values()]
    tokens, right_tokens = [text.split() for text in outputs], [[r.split() for r in several] for several in right]
    values = {
        **{score.name.lower(): score.score for score in found},
        "exact_match": exact_match(outputs, right),
        "token_error_rate": token_error_rate(tokens, right_tokens),
        "sequence_error_rate": sequence_error_rate(tokens, right_tokens),
        "sentences": float(len(hypotheses)),
    }
    rows = [
        {"words": part.label, "sentences": part.count, "bleu": part.bleu}
        for part in bleu_by_length(sources, hypotheses, references)
    ]
    return TextScores(values, found[0].signature, rows)
