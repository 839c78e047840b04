"""Scores of tagged spans: a span is right if its boundaries and label are exact.

    BIO      B-PER I-PER O              B begins, I continues; an I without a preceding tag of its label begins, too
    BIOES    B-PER E-PER S-LOC O        E ends, S is a span of one word

    precision = right / predicted    recall = right / gold    F₁ = 2 right / (predicted + gold)

Counted as conlleval does (Tjong Kim Sang and Buchholz 2000, section 4, aclanthology.org/W00-0726), which reads both
schemes, and accepts a wrong first tag. All in per cent.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

BEGINS, GOES_ON = ("B", "S"), ("I", "E")


class Span(NamedTuple):
    label: str
    start: int
    end: int  # the word after the last one


def marks_spans(tags: Sequence[str]) -> bool:
    """Whether these tags are of one of the schemes: O, and prefixes with a label, with at least one first tag."""
    parts = [tag.partition("-") for tag in tags if tag != "O"]
    fits = all(prefix in BEGINS + GOES_ON and dash and label for prefix, dash, label in parts)
    return bool(parts) and fits and any(prefix in BEGINS for prefix, _, _ in parts)


def spans(tags: Sequence[str]) -> list[Span]:
    found: list[Span] = []
    start, label, ended = 0, "", True
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, mine = tag.partition("-")
        on = prefix in GOES_ON and label == mine and not ended
        if label and not on:
            found.append(Span(label, start, place))
        if not on:
            start, label = place, mine
        ended = prefix in ("E", "S", "O")
    return found


def violations(tags: Sequence[str]) -> Iterator[int]:
    """Yield the positions of tags that continue a span that did not begin."""
    before = "O"
    for place, tag in enumerate(tags):
        prefix, _, label = tag.partition("-")
        open_ = before.partition("-")[0] in ("B", "I") and before.partition("-")[2] == label
        if prefix in GOES_ON and not open_:
            yield place
        before = tag


def span_scores(right: Sequence[Sequence[str]], said: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Score all spans (`label` is empty), and each label; `right` and `said` are the tags of each text."""
    there, given, hits = Counter[str](), Counter[str](), Counter[str]()
    for one, other in zip(right, said, strict=True):
        mine, its = set(spans(one)), set(spans(other))
        for counter, some in ((there, mine), (given, its), (hits, mine & its)):
            counter.update(span.label for span in some)
            counter[""] += len(some)
    return [
        {
            "label": label, "precision": _share(hits[label], given[label]), "recall": _share(hits[label], there[label]),
            "f1": _share(2 * hits[label], given[label] + there[label]), "spans": there[label], "said": given[label],
        }
        for label in sorted({"", *there, *given})
    ]  # fmt: skip


def _share(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
