"""Word alignments: gold links, their two file formats, and the alignment error rate.

    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)        precision = |A ∩ P| / |A|        recall = |A ∩ S| / |S|

for links A, sure gold links S and possible ones P ⊇ S (Och and Ney 2003, A Systematic Comparison of Various Statistical
Alignment Models, section 4). Sums run over the whole corpus before the division. A link is (source word, target word),
counted from 0.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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
