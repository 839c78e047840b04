"""Word alignments: gold links, their two file formats, and the alignment error rate.

    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)        precision = |A ∩ P| / |A|        recall = |A ∩ S| / |S|

for links A, sure gold links S and possible ones P ⊇ S (Och and Ney 2003, A Systematic Comparison of Various Statistical
Alignment Models, section 4). Sums run over the whole corpus before the division. A link is (source word, target word),
counted from 0.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from regard.errors import CallError

Link = tuple[int, int]
Lengths = Sequence[tuple[int, int]]  # of each sentence pair: source words, target words
PHARAOH = re.compile(r"(\d+)([-?p])(\d+)")


@dataclass(frozen=True)
class Gold:
    """The gold links of one sentence pair. `possible` holds the sure ones too, whether given or not."""

    sure: frozenset[Link]
    possible: frozenset[Link] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "possible", self.possible | self.sure)

    def require_inside(self, source: int, target: int) -> None:
        """Raise a CallError for a link outside a pair with these numbers of source and target words."""
        for i, j in sorted(self.possible):
            if i >= source or j >= target:
                raise CallError(
                    f"the gold link {i}-{j} points outside the pair: it has {source} source and {target} target words, "
                    "counted from 0"
                )


@dataclass(frozen=True)
class AlignmentScore:
    """Shares of 1. With nothing found, no link is wrong; with nothing to find, none is missed: both are then 1."""

    aer: float
    precision: float
    recall: float


def alignment_score(found: Sequence[Iterable[Link]], gold: Sequence[Gold]) -> AlignmentScore:
    """Return the score of the links found in each sentence against the gold links."""
    if len(found) != len(gold):
        raise CallError(f"links of {len(found)} sentences but gold alignments of {len(gold)}")
    sure_hits = possible_hits = claimed = sure = 0
    for links, right in zip(map(set, found), gold, strict=True):
        sure_hits += len(links & right.sure)
        possible_hits += len(links & right.possible)
        claimed += len(links)
        sure += len(right.sure)
    return score_of_counts(sure_hits, possible_hits, claimed, sure)


def score_of_counts(sure_hits: int | float, possible_hits: int | float, claimed: int, sure: int) -> AlignmentScore:
    """Return the score from |A ∩ S|, |A ∩ P| (counted or expected), |A| and |S|."""
    both = claimed + sure
    return AlignmentScore(
        aer=1 - (sure_hits + possible_hits) / both if both else 0.0,
        precision=possible_hits / claimed if claimed else 1.0,
        recall=sure_hits / sure if sure else 1.0,
    )


def read_pharaoh(path: Path | str, lengths: Lengths | None = None, *, first: int = 0) -> list[Gold]:
    """Read one sentence a line: "0-0 1-2 1?3". A link with "?" or "p" for "-" is a possible one; a line may be empty.

    With the `lengths` of the sentences, links to missing words raise an error. `first=1` for files that count
    from 1, as the talp format does ("1-2 3p4"). Lines may also be "source ||| target ||| links", or "links ||| score".
    """
    lines = list(_lines(path))
    if lengths is not None and len(lengths) != len(lines):
        raise CallError(f"{path}: links of {len(lines)} sentences, but there are {len(lengths)} sentence pairs")
    return [
        _pharaoh_line(path, number, line, None if lengths is None else lengths[place], first)
        for place, (number, line) in enumerate(lines)
    ]


def _pharaoh_line(path: Path | str, number: int, line: str, length: Link | None, first: int) -> Gold:
    sure, possible = set(), set()
    fields = line.split("|||")
    if len(fields) == 3 and length is None:
        length = len(fields[0].split()), len(fields[1].split())
    for text in fields[2 if len(fields) == 3 else 0].split():
        match = PHARAOH.fullmatch(text)
        if not match:
            raise CallError(
                f"{path}:{number}: {text!r} is no link; Pharaoh format has 0-0 (sure) and 0?0 or 0p0 (possible)"
            )
        link = int(match[1]) - first, int(match[3]) - first
        _refuse_outside(f"{path}:{number}: {text!r}", link, length, first)
        (sure if match[2] == "-" else possible).add(link)
    return Gold(frozenset(sure), frozenset(possible))


def _refuse_outside(where: str, link: Link, length: Link | None, first: int) -> None:
    if min(link) < 0:
        raise CallError(f"{where} has a word 0 in a file that is counted from {first}; is it counted from 0?")
    if length is not None and (link[0] >= length[0] or link[1] >= length[1]):
        hint = "; are the links counted from 1?" if first == 0 else ""
        raise CallError(
            f"{where} is a link to a word that is not there: the pair has {length[0]} source and {length[1]} target "
            f"words, counted from {first}{hint}"
        )


def write_pharaoh(path: Path | str, alignments: Iterable[Gold]) -> None:
    """Write the same format: sure links with "-", those that are only possible with "?"."""
    lines = (
        " ".join(f"{i}{'-' if (i, j) in gold.sure else '?'}{j}" for i, j in sorted(gold.possible))
        for gold in alignments
    )
    Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_naacl(path: Path | str, sentences: int | None = None, lengths: Lengths | None = None) -> list[Gold]:
    """Read one link a line: sentence, source word, target word, all counted from 1, then S (if nothing: S) or P.

    This is the format of the NAACL 2003 shared job. Word 0 means "no word" there, and such links are skipped. A
    confidence may follow and is ignored. `sentences` says how many there are, for when the last ones have no link;
    with their `lengths`, links to missing words raise an error.
    """
    sure: dict[int, set[Link]] = {}
    possible: dict[int, set[Link]] = {}
    last = 0
    sentences = len(lengths) if lengths is not None else sentences
    for number, line in _lines(path):
        fields = line.split()
        if not fields:
            continue
        kind = fields[3] if len(fields) > 3 else "S"
        if len(fields) < 3 or not all(field.isdecimal() for field in fields[:3]) or kind not in ("S", "P"):
            raise CallError(f"{path}:{number}: {line!r} is no link; NAACL format has: sentence source target [S|P]")
        sentence, i, j = (int(field) for field in fields[:3])
        if sentence < 1 or (sentences is not None and sentence > sentences):
            raise CallError(f"{path}:{number}: sentence {sentence} is not one of 1 to {sentences or '...'}")
        last = max(last, sentence)
        if i and j:
            length = None if lengths is None else lengths[sentence - 1]
            _refuse_outside(f"{path}:{number}: {line!r}", (i - 1, j - 1), length, 1)
            (sure if kind == "S" else possible).setdefault(sentence, set()).add((i - 1, j - 1))
    count = last if sentences is None else sentences
    return [Gold(frozenset(sure.get(s, ())), frozenset(possible.get(s, ()))) for s in range(1, count + 1)]


def _lines(path: Path | str) -> Iterator[tuple[int, str]]:
    try:
        with Path(path).open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield number, line.rstrip("\n")
    except OSError as error:
        raise CallError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CallError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error


# Word alignments from attention weights: T target words (rows, queries) × S source words (columns, keys).
#
#     argmax   each target word is linked to the source word of largest weight     A = {(argmax_i a_ti, t)}
#     two-way  argmax, and each source word without a link is linked to the target word of largest weight
#
# Argmax cannot link one target word to two source words ("we are", "estamos"); two-way can. A decoder often attends
# to a word's source one step late, when the word is its input: the shifted reading uses weights of step t + 1 for
# word t (Chen et al. 2020, arXiv 2004.14837).

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
