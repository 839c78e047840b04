"""Scores of text against references, as the field computes them: sacreBLEU (Post 2018, arXiv 1804.08771).

BLEU can only be compared with its signature (tokenization, case, smoothing, version), so no score goes without one.
A reference is a sentence, or several where any of them is right.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.errors import CallError

References = Sequence[str] | Sequence[Sequence[str]]


@dataclass(frozen=True)
class TextScore:
    """0 to 100; of TER, an error rate, less is better and more than 100 possible."""

    name: str
    score: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.score:.1f} ({self.signature})"


def bleu(hypotheses: Sequence[str], references: References, *, lowercase: bool = False) -> TextScore:
    """Corpus BLEU with sacreBLEU's own choices: 13a tokenization, exponential smoothing, mixed case."""
    return _score("BLEU", BLEU(lowercase=lowercase), hypotheses, references)


def chrf(hypotheses: Sequence[str], references: References) -> TextScore:
    """chrF2: F-score of character 6-grams (Popović 2015)."""
    return _score("chrF2", CHRF(), hypotheses, references)


def ter(hypotheses: Sequence[str], references: References) -> TextScore:
    """Edits, shifts of phrases among them, per reference word (Snover et al. 2006)."""
    return _score("TER", TER(), hypotheses, references)


def exact_match(hypotheses: Sequence[str], references: References) -> float:
    """The share of hypotheses that equal a reference, in percent. Spaces at the ends do not count."""
    lists = _as_lists(hypotheses, references)
    right = sum(h.strip() in {r.strip() for r in given} for h, given in zip(hypotheses, lists, strict=True))
    return 100 * right / len(lists)


def _score(name: str, metric: Metric, hypotheses: Sequence[str], references: References) -> TextScore:
    lists = _as_lists(hypotheses, references)
    most = max(len(given) for given in lists)
    # sacreBLEU wants streams: the first references of all sentences, then the second ones, None where there is none.
    streams = [[given[i] if i < len(given) else None for given in lists] for i in range(most)]
    result = metric.corpus_score(hypotheses, streams)  # pyright: ignore[reportArgumentType] (None is documented)
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
