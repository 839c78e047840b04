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
    "columns": "look for missing or extra separators, or set data.source and data.target; these lines are skipped",
    "empty": "remove these lines, or complete them; they are skipped",
    "blank": "nothing is lost with them; they are skipped",
}


def check(settings: Limits, stores: dict[Role, PairStore], vocabulary: dict[str, int]) -> CheckReport:
    """Look at data that was prepared with `strict=False`, so that also bad data can be reported on as a whole.

    `vocabulary`: the two sides by their names, and how many entries their vocabularies have.
    """
    findings: list[Finding] = []
    for role, store in stores.items():
        findings += _lost(settings, role, store)
        findings += _lengths(settings, role, store)
        findings += _unknown(role, store, (*vocabulary,))
        findings += _texts(role, store)
        if role != "train":
            findings += _leaks(role, store, stores["train"])
    findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.severity))
    splits: dict[Role, SplitFigures] = {}
    for role, store in stores.items():
        splits[role] = _figures(store, (*vocabulary,))
    return CheckReport(splits, vocabulary, findings)


def _figures(store: PairStore, sides: tuple[str, ...]) -> SplitFigures:
    read = store.counts.read
    skipped = read.bad + read.pairs - len(store)
    return SplitFigures(
        store.name, len(store), skipped, side_figures(store.counts.source), side_figures(store.counts.target),
        (sides[0], sides[-1]),
    )  # fmt: skip


def _lost(settings: Limits, role: Role, store: PairStore) -> Iterator[Finding]:
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
        what = f"{_lines(read.lost[kind])} {'are no pairs' if read.lost[kind] != 1 else 'is no pair'}: {first.reason}"
        what += "" if kind == "blank" or len(bads) == 1 else " (the first)"
        advice = _ADVICE[kind]
        if severity == "error":
            advice += f"; {read.share:.1%} of all lines are bad, data.max_bad allows {settings.max_bad:.1%}"
        yield Finding(severity, role, what, read.lost[kind], first.file, [bad.line for bad in bads], advice)


def _lengths(settings: Limits, role: Role, store: PairStore) -> Iterator[Finding]:
    """Sides that are longer than the limit, and pairs of very unequal sides."""
    counts = store.counts
    if counts.overlong:
        share = counts.overlong / counts.read.pairs
        done = "skipped" if settings.overlong == "skip" else "cut"
        nearly, all_of_them = (
            max(percentile(counts.source.lengths, percent), percentile(counts.target.lengths, percent))
            for percent in (99.9, 100)
        )
        advice = f"they are {done}; data.max_length={all_of_them} would keep all"
        if settings.max_length < nearly < all_of_them:
            advice += f", {nearly} all but one in a thousand of each side"
        yield Finding(
            "warning" if share > 0.01 else "note",
            role,
            f"{_pairs(counts.overlong)} ({share:.1%}) longer than data.max_length={settings.max_length} tokens",
            counts.overlong,
            store.name,
            counts.overlong_first,
            advice,
        )
    source, target = (lengths.astype(float) for lengths in store.lengths())
    ratio = np.log(source / target)
    odd = np.abs(ratio - np.median(ratio)) > np.log(ODD_RATIO)
    rows = np.flatnonzero(odd & (np.maximum(source, target) >= ODD_LENGTH))
    if len(rows):
        what = f"{_pairs(len(rows))} with one side more than {ODD_RATIO:g} times longer than usual"
        yield _at("warning", role, store, rows, what, "look whether these are translations of each other")


def _unknown(role: Role, store: PairStore, sides: tuple[str, ...]) -> Iterator[Finding]:
    for name, side in ((sides[0], store.counts.source), (sides[-1], store.counts.target)):
        rate = side.unknown / max(1, side.tokens)
        if rate > MANY_UNKNOWN:
            what = f"{side.unknown:,} of {side.tokens:,} {name} tokens ({rate:.1%}) are not in the vocabulary"
            advice = "raise data.tokenizer.size, or use data.tokenizer.kind=bpe"
            yield Finding("warning", role, what, side.unknown, store.name, [], advice)


def _texts(role: Role, store: PairStore) -> Iterator[Finding]:
    """Pairs that occur twice, and pairs of a text with itself."""
    pairs = _pair_hashes(store)
    order = np.argsort(pairs, kind="stable")
    again = np.sort(order[1:][pairs[order[1:]] == pairs[order[:-1]]])
    if len(again):
        share = len(again) / len(store)
        what = f"{_pairs(len(again))} ({share:.1%}) {'repeat' if len(again) != 1 else 'repeats'} an earlier one"
        advice = "remove them unless they are meant: they count several times"
        yield _at("warning" if share > 0.05 else "note", role, store, again, what, advice)
    same = np.flatnonzero(store.hashes[:, 0] == store.hashes[:, 1])
    if len(same):
        share = len(same) / len(store)
        what = f"{_pairs(len(same))} ({share:.1%}) with a target equal to the source"
        advice = "remove them if they were left untranslated: the model would learn to copy"
        yield _at("warning" if share > 0.01 else "note", role, store, same, what, advice)


def _leaks(role: Role, store: PairStore, train: PairStore) -> Iterator[Finding]:
    """What is measured on must not be trained on."""
    whole = np.isin(_pair_hashes(store), _pair_hashes(train))
    half = np.isin(store.hashes[:, 0], train.hashes[:, 0]) & ~whole
    if whole.any():
        rows = np.flatnonzero(whole)
        what = f"{_pairs(len(rows))} ({len(rows) / len(store):.1%}) that training has too"
        yield _at("warning", role, store, rows, what, "remove them from data.train, or scores will flatter")
    if half.any():
        rows = np.flatnonzero(half)
        what = f"{_pairs(len(rows))} ({len(rows) / len(store):.1%}) whose source training has with another target"
        yield _at("warning", role, store, rows, what, "remove them from data.train if they are the same in meaning")


def _pair_hashes(store: PairStore) -> NDArray[np.uint64]:
    return store.hashes[:, 0] * np.uint64(0x9E3779B97F4A7C15) + store.hashes[:, 1]


def _at(severity: Severity, role: Role, store: PairStore, rows: NDArray[np.int64], what: str, advice: str) -> Finding:
    return Finding(severity, role, what, len(rows), store.name, store.lines[rows[:FIRST]].tolist(), advice)


def _pairs(count: int) -> str:
    return f"{count:,} pair{'s' if count != 1 else ''}"


def _lines(count: int) -> str:
    return f"{count:,} line{'s' if count != 1 else ''}"
