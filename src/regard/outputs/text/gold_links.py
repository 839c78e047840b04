"""Comparison of a translator's attention with gold alignments of source words and target words.

The *references* are forced through the model, because gold links join their words. Weights between pieces become
weights between words, from which links are derived in one of several ways (`READINGS`).
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from regard.corpora import PREFIX, load
from regard.corpora.pair import WORD, Pair
from regard.data.examples import Example
from regard.data.tables import Role
from regard.data.tokenizer import Span, Tokenizer
from regard.errors import CallError
from regard.inputs.text.settings import PairDataSettings
from regard.metrics.alignment import Gold, read_naacl, read_pharaoh
from regard.metrics.alignment_links import alignment_report, argmax_links, merge_subwords, two_way_links
from regard.outputs.result import Scores
from regard.outputs.text.output import Forced

#: How links are derived from weights; a decoder may attend to a word's source one step late (`shifted`).
READINGS: dict[str, tuple[Any, bool]] = {
    "argmax": (argmax_links, False),
    "argmax, shifted": (argmax_links, True),
    "two-way": (two_way_links, False),
    "two-way, shifted": (two_way_links, True),
}
BASELINE = "baseline"  # layer name of baselines in `alignment_report`
FIXED = {"layer": "all", "head": "mean", "reading": "argmax"}

Rows = list[dict[str, Any]]  # one row for each layer, head and reading


def alignment_errors(forced: Sequence[Forced], gold: Sequence[Gold], source: Tokenizer, target: Tokenizer) -> Rows:
    """Return the errors of every layer, head and baseline, by every reading; empty if the model has no attention."""
    if not forced or not forced[0].seen.weights:
        return []
    texts = [one.example for one in forced]
    spans = [(word_pieces(source.spans(one.input)), word_pieces(target.spans(one.texts[0]))) for one in texts]
    found: Rows = []
    for name, (links, shift) in READINGS.items():
        words = [
            {layer: merge_subwords(weights, *own, shift=shift) for layer, weights in one.seen.weights.items()}
            for one, own in zip(forced, spans, strict=True)
        ]
        rows = alignment_report(words, gold, links)
        found += [{"layer": row.layer, "head": row.head, **asdict(row.score), "reading": name} for row in rows]
    return found


def add_alignment_error(scores: Scores, rows: Rows, valid: Rows, *, details: bool) -> None:
    """Add the error of the layer, head and reading that are best on validation pairs, so that test gold does not
    decide.
    """
    of_model = [row for row in rows if row["layer"] != BASELINE]
    chosen, why = FIXED, "fixed, as validation pairs have no gold links"
    if valid:
        chosen = min((row for row in valid if row["layer"] != BASELINE), key=lambda row: row["aer"])
        why = "the best on validation pairs"
    shown = [row for row in rows if row["reading"] == chosen["reading"]]
    (headline,) = (row for row in shown if (row["layer"], row["head"]) == (chosen["layer"], chosen["head"]))
    scores.values["aer"] = headline["aer"]
    scores.values.update({f"aer_{row['head']}": row["aer"] for row in shown if row["layer"] == BASELINE})
    scores.values["aer_best_on_test"] = min(row["aer"] for row in of_model)
    scores.notes["reading"] = f"aer: {chosen['reading']}, {chosen['layer']}, {chosen['head']}; {why}"
    scores.notes["optimistic"] = f"aer_best_on_test: the best of {len(of_model)} readings, chosen on the test gold"
    if details:
        scores.details["alignment error by layer and head"] = shown


def gold_pairs(where: str, role: Role) -> list[tuple[Pair, Gold]]:
    """Return the pairs of an embedded corpus with gold links; empty for other data."""
    pairs = load("pocket", role) if where == f"{PREFIX}pocket" else ()
    return [(pair, Gold(frozenset(pair.alignment), frozenset(pair.possible))) for pair in pairs]


def gold_of_test(data: PairDataSettings, examples: Sequence[Example]) -> list[Gold]:
    """Return the gold alignments of these test pairs, from data.alignments or the corpus; empty if there are none."""
    if data.alignments is None:
        known = {(pair.source, pair.target): gold for pair, gold in gold_pairs(data.test or data.train, "test")}
        return [known[one.input, one.texts[0]] for one in examples] if known else []
    file = Path(data.alignments)
    if not file.is_file():
        raise CallError(f"data.alignments={file}: there is no such file")
    lengths = [(len(WORD.findall(one.input)), len(WORD.findall(one.texts[0]))) for one in examples]
    if data.alignment_format == "naacl" or (data.alignment_format == "auto" and _is_naacl(file)):
        return read_naacl(file, len(examples), lengths)
    return read_pharaoh(file, lengths, first=1 if data.alignment_format == "talp" else 0)


def _is_naacl(file: Path) -> bool:
    """Whether a file has NAACL format (lines begin with three separate numbers), not Pharaoh (numbers joined in
    pairs).
    """
    with file.open(encoding="utf-8", errors="replace") as lines:
        first = next((line.split() for line in lines if line.strip()), [])
    return len(first) >= 3 and all(word.isdigit() for word in first[:3])


def word_pieces(spans: Sequence[Span]) -> list[tuple[int, int]]:
    """Return the pieces (start, stop) of each word, in order."""
    places: dict[int, list[int]] = {}
    for place, span in enumerate(spans):
        places.setdefault(span.word, []).append(place)
    return [(own[0], own[-1] + 1) for _, own in sorted(places.items())]
