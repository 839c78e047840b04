"""Word alignments from attention weights: T target words (rows, queries) × S source words (columns, keys).

    argmax   each target word is linked to the source word of largest weight     A = {(argmax_i a_ti, t)}
    two-way  argmax, and each source word without a link is linked to the target word of largest weight

Argmax cannot link one target word to two source words ("we are", "estamos"); two-way can. A decoder
often attends to a word's source one step late, when the word is its input: the shifted reading uses weights of step
t + 1 for word t (Chen et al. 2020, arXiv 2004.14837).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from regard.errors import CallError
from regard.metrics.alignment import AlignmentScore, Gold, Link, alignment_score, score_of_counts

Weights = Float[np.ndarray, "T S"]
Span = tuple[int, int]


def argmax_links(weights: Weights) -> set[Link]:
    """Return one source word for each target word (the first of equals)."""
    if not weights.size:
        return set()
    return {(int(source), target) for target, source in enumerate(weights.argmax(axis=1))}


def two_way_links(weights: Weights) -> set[Link]:
    """Return the argmax links, completed so that every source word has a link."""
    links = argmax_links(weights)
    if links:
        taken = {source for source, _ in links}
        best = weights.argmax(axis=0)
        links |= {(source, int(best[source])) for source in range(weights.shape[1]) if source not in taken}
    return links


def merge_subwords(
    weights: Float[np.ndarray, "*b P R"],
    source_spans: Sequence[Span],
    target_spans: Sequence[Span],
    *,
    shift: bool = False,
) -> Float[np.ndarray, "*b T S"]:
    """Merge weights of pieces to words: the sum over a source word's pieces, the mean over a target word's.

    So do Clark et al. 2019, section 4.1 (arXiv 1906.04341). A span (start, stop) gives a word's pieces; pieces of no
    word (begin and end symbols) drop out. With `shift` each target piece is read one row later; the row of the end
    symbol serves the last piece.
    """
    late = int(shift)
    rows, columns = weights.shape[-2:]
    for name, spans, size in (("source", source_spans, columns), ("target", target_spans, rows - late)):
        for start, stop in spans:
            if not 0 <= start < stop <= size:
                raise CallError(
                    f"the {name} span ({start}, {stop}) does not fit the {size} {name} pieces that weights have"
                )
    by_source = [weights[..., start:stop].sum(axis=-1) for start, stop in source_spans]
    narrow = np.stack(by_source, axis=-1) if by_source else weights[..., :0]
    by_target = [narrow[..., start + late : stop + late, :].mean(axis=-2) for start, stop in target_spans]
    return np.stack(by_target, axis=-2) if by_target else narrow[..., :0, :]


@dataclass(frozen=True)
class ReportRow:
    """One source of links: a layer's head, the mean of its heads, the mean of all, or a baseline without attention."""

    layer: str
    head: str
    score: AlignmentScore


def alignment_report(
    weights: Sequence[Mapping[str, np.ndarray]],
    gold: Sequence[Gold],
    reading: Callable[[Weights], set[Link]] = argmax_links,
) -> list[ReportRow]:
    """Score every layer and head. `weights[n]` has for sentence n, by the layer's name, heads × words × words.

    Rows: each head, each layer's mean, the mean of all layers, then the baselines. *uniform* links each target word to
    one source word at random (its expected score, in closed form), *diagonal* to the one at the same relative place,
    *shuffled* reads the mean of all with the target words in a wrong, seeded order: what is gained by looking in the
    right places, but at the wrong time.
    """
    if len(weights) != len(gold):
        raise CallError(f"weights of {len(weights)} sentences but gold alignments of {len(gold)}")
    if not weights:
        raise CallError("nothing to align: no sentences were given")

    def row(layer: str, head: str, tables: Sequence[np.ndarray]) -> ReportRow:
        return ReportRow(layer, head, alignment_score([reading(table) for table in tables], gold))

    rows = []
    layers = list(weights[0])
    for layer in layers:
        for head in range(len(weights[0][layer])):
            rows.append(row(layer, str(head), [sentence[layer][head] for sentence in weights]))
        rows.append(row(layer, "mean", [sentence[layer].mean(axis=0) for sentence in weights]))
    everything = [np.mean([sentence[layer].mean(axis=0) for layer in layers], axis=0) for sentence in weights]
    random = np.random.default_rng(0)
    rows.append(row("all", "mean", everything))
    rows.append(ReportRow("baseline", "uniform", _uniform(everything, gold)))
    rows.append(ReportRow("baseline", "diagonal", alignment_score([_diagonal(t) for t in everything], gold)))
    rows.append(row("baseline", "shuffled", [random.permutation(table, axis=0) for table in everything]))
    return rows


def _uniform(tables: Sequence[np.ndarray], gold: Sequence[Gold]) -> AlignmentScore:
    """Return the expected score of one random link a target word: each gold link is hit with probability 1 / S."""
    sources = [max(1, table.shape[1]) for table in tables]
    sure_hits = sum(len(right.sure) / size for right, size in zip(gold, sources, strict=True))
    possible_hits = sum(len(right.possible) / size for right, size in zip(gold, sources, strict=True))
    return score_of_counts(
        sure_hits, possible_hits, sum(len(t) for t in tables), sum(len(right.sure) for right in gold)
    )


def _diagonal(table: Weights) -> set[Link]:
    targets, sources = table.shape
    return {((2 * t + 1) * sources // (2 * targets), t) for t in range(targets)} if sources else set()
