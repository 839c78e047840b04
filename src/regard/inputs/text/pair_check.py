"""What is wrong with the data, before anything is trained on it: each finding with file, lines, count and what to do.

All of it is read from what `prepare` wrote, so checking costs little more than preparing, and the text is not read
again. Duplicates are found by 64-bit hashes, 8 bytes a line in memory: two different texts of a hundred million are
taken for equal with a chance of 1 in 3,700.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from regard.data.check_report import (
    MANY_UNKNOWN,
    CheckReport,
    Finding,
    Severity,
    SplitFigures,
    percentile,
    side_figures,
)
from regard.data.read_report import FIRST
from regard.data.tables import Role
from regard.inputs.text.pair_prepare import Limits
from regard.inputs.text.pair_store import PairStore

ODD_RATIO = 4.0  # a pair is suspicious if one side is so many times longer than is usual in these data ...
ODD_LENGTH = 10  # ... and has at least so many tokens; short sentences vary

_ADVICE = {
    "encoding": "convert the file to UTF-8: iconv -f LATIN1 -t UTF-8 FILE > NEW (or whatever it is written in)",
    "unreadable": "look at these lines; they are skipped",
    "columns": "look for missing or extra separators, or say which columns are meant; these lines are skipped",
    "unequal": "find the missing or extra one; these are skipped",
    "empty": "remove these lines, or complete them; they are skipped",
    "blank": "nothing is lost with them; they are skipped",
}


def check(
    settings: Limits, stores: dict[Role, PairStore], vocabulary: dict[str, int], *, two_texts: bool = True
) -> CheckReport:
    """Look at data that was prepared with `strict=False`, so that also bad data can be reported on as a whole.

    `vocabulary`: the two sides by their names, and how many entries their vocabularies have. `two_texts`: the target
    is a text like the source; else it is what is said of one, a label for example.
    """
    sides = (next(iter(vocabulary)), [*vocabulary][-1])
    noun = "pair" if two_texts else sides[0]
    findings: list[Finding] = []
    for role, store in stores.items():
        findings += _lost(settings, role, store, sides, two_texts)
        findings += _overlong(settings, role, store, noun)
        findings += _unknown(role, store, sides, two_texts)
        findings += _again(role, store, noun, sides, two_texts)
        findings += _of_two_texts(role, store) if two_texts else _empty(role, store, noun)
        if role != "train":
            findings += _leaks(role, store, stores["train"], noun, sides)
    findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.severity))
    return CheckReport({role: _figures(store, sides) for role, store in stores.items()}, vocabulary, findings)


def _figures(store: PairStore, sides: tuple[str, str]) -> SplitFigures:
    read = store.counts.read
    skipped = read.bad + read.pairs - len(store)
    return SplitFigures(
        store.name, len(store), skipped, side_figures(store.counts.source), side_figures(store.counts.target), sides
    )


def _lost(settings: Limits, role: Role, store: PairStore, sides: tuple[str, str], two_texts: bool) -> Iterator[Finding]:
    """Lines that are no pairs."""
    read = store.counts.read
    too_many = read.share > settings.max_bad
    for kind, bads in read.first.items():
        first = bads[0]
        if kind == "unpaired":
            advice = "find the missing or extra line; from there on, every pair is wrong"
            yield Finding("error", role, first.reason, first.lines, first.file, [first.line], advice)
            continue
        severity: Severity = "note" if kind == "blank" else "error" if too_many else "warning"
        none = "is no pair" if read.lost[kind] == 1 else "are no pairs"
        none = none if two_texts else f"without a {sides[0]} and its {sides[1]}"
        what = f"{_count(read.lost[kind], 'line')} {none}: {first.reason}"
        what += "" if kind == "blank" or len(bads) == 1 else " (the first)"
        advice = _ADVICE[kind]
        if severity == "error":
            advice += f"; {read.share:.1%} of all lines are bad, data.max_bad allows {settings.max_bad:.1%}"
        yield Finding(severity, role, what, read.lost[kind], first.file, [bad.line for bad in bads], advice)


def _overlong(settings: Limits, role: Role, store: PairStore, noun: str) -> Iterator[Finding]:
    """Sides that are longer than the limit."""
    counts = store.counts
    if not counts.overlong:
        return
    share = counts.overlong / counts.read.pairs
    done = "skipped" if settings.overlong == "skip" else "cut"
    nearly, all_of_them = (
        max(percentile(counts.source.lengths, percent), percentile(counts.target.lengths, percent))
        for percent in (99.9, 100)
    )
    advice = f"they are {done}; data.max_length={all_of_them} would keep all"
    if settings.max_length < nearly < all_of_them:
        advice += f", {nearly} all but one in a thousand of each side"
    what = f"{_count(counts.overlong, noun)} ({share:.1%}) longer than data.max_length={settings.max_length} tokens"
    severity = "warning" if share > 0.01 else "note"
    yield Finding(severity, role, what, counts.overlong, store.name, counts.overlong_first, advice)


def _of_two_texts(role: Role, store: PairStore) -> Iterator[Finding]:
    """Pairs of very unequal sides, and pairs of a text with itself."""
    source, target = (lengths.astype(float) for lengths in store.lengths())
    ratio = np.log(source / target)
    odd = np.abs(ratio - np.median(ratio)) > np.log(ODD_RATIO)
    rows = np.flatnonzero(odd & (np.maximum(source, target) >= ODD_LENGTH))
    if len(rows):
        what = f"{_count(len(rows), 'pair')} with one side more than {ODD_RATIO:g} times longer than usual"
        yield _at("warning", role, store, rows, what, "look whether these are translations of each other")
    same = np.flatnonzero(store.hashes[:, 0] == store.hashes[:, 1])
    if len(same):
        share = len(same) / len(store)
        what = f"{_count(len(same), 'pair')} ({share:.1%}) with a target equal to the source"
        advice = "remove them if they were left untranslated: the model would learn to copy"
        yield _at("warning" if share > 0.01 else "note", role, store, same, what, advice)


def _empty(role: Role, store: PairStore, noun: str) -> Iterator[Finding]:
    rows = np.flatnonzero(store.lengths()[0] <= 1)
    if len(rows):
        what = f"{_count(len(rows), noun)} in which the tokenizer finds nothing to read"
        yield _at("warning", role, store, rows, what, "remove them, or use data.tokenizer.kind=byte")


def _unknown(role: Role, store: PairStore, sides: tuple[str, str], two_texts: bool) -> Iterator[Finding]:
    counted = zip(sides, (store.counts.source, store.counts.target), strict=True)
    for name, side in counted if two_texts else [*counted][: role == "train"]:
        rate = side.unknown / max(1, side.tokens)
        if rate > MANY_UNKNOWN:
            what = f"{side.unknown:,} of {side.tokens:,} {name} tokens ({rate:.1%}) are not in the vocabulary"
            advice = "raise data.tokenizer.size, or use data.tokenizer.kind=bpe"
            yield Finding("warning", role, what, side.unknown, store.name, [], advice)


def _again(role: Role, store: PairStore, noun: str, sides: tuple[str, str], two_texts: bool) -> Iterator[Finding]:
    """Pairs that occur twice; and sources that have two targets, where that cannot be meant."""
    order = np.lexsort((store.hashes[:, 1], store.hashes[:, 0]))
    before, after = order[:-1], order[1:]
    same_source, same_target = (store.hashes[before, side] == store.hashes[after, side] for side in (0, 1))
    later = np.maximum(before, after)
    again, torn = np.sort(later[same_source & same_target]), np.sort(later[same_source & ~same_target])
    if len(again):
        share = len(again) / len(store)
        what = f"{_count(len(again), noun)} ({share:.1%}) {'repeat' if len(again) != 1 else 'repeats'} an earlier one"
        advice = "remove them unless they are meant: they count several times"
        yield _at("warning" if share > 0.05 else "note", role, store, again, what, advice)
    if len(torn) and not two_texts:
        what = f"{_count(len(torn), noun)} ({len(torn) / len(store):.1%}) that occur with another {sides[1]}, too"
        yield _at("warning", role, store, torn, what, f"decide on one {sides[1]}")


def _leaks(role: Role, store: PairStore, train: PairStore, noun: str, sides: tuple[str, str]) -> Iterator[Finding]:
    """What is measured on must not be trained on."""
    whole = np.isin(_pair_hashes(store), _pair_hashes(train))
    half = np.isin(store.hashes[:, 0], train.hashes[:, 0]) & ~whole
    if whole.any():
        rows = np.flatnonzero(whole)
        what = f"{_count(len(rows), noun)} ({len(rows) / len(store):.1%}) that training has too"
        yield _at("warning", role, store, rows, what, "remove them from data.train, or scores will flatter")
    if half.any():
        rows, (source, target) = np.flatnonzero(half), sides
        share = len(rows) / len(store)
        what = f"{_count(len(rows), noun)} ({share:.1%}) whose {source} training has with another {target}"
        yield _at("warning", role, store, rows, what, "remove them from data.train if they are the same in meaning")


def _pair_hashes(store: PairStore) -> NDArray[np.uint64]:
    return store.hashes[:, 0] * np.uint64(0x9E3779B97F4A7C15) + store.hashes[:, 1]


def _at(severity: Severity, role: Role, store: PairStore, rows: NDArray[np.int64], what: str, advice: str) -> Finding:
    return Finding(severity, role, what, len(rows), store.name, store.lines[rows[:FIRST]].tolist(), advice)


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' if count != 1 else ''}"
