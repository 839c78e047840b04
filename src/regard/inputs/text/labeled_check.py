"""What is wrong with labeled texts, before anything is trained on them."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from regard.data.check_report import (  # fmt: skip
    MANY_UNKNOWN,
    CheckReport,
    Finding,
    Severity,
    SplitFigures,
    percentile,
    side_figures,
)
from regard.data.pairs import Pair
from regard.data.read_report import FIRST
from regard.data.tables import Role
from regard.inputs.text.labeled_prepare import PreparedTexts
from regard.inputs.text.pair_store import PairStore
from regard.inputs.text.splits import Split
from regard.outputs.labels.classify_settings import TextSettings
from regard.outputs.labels.labels import FIRST as FIRST_CLASS
from regard.outputs.labels.labels import UNKNOWN, Labels

FEW = 10  # training texts of a class that are hardly enough
UNEVEN = 10.0  # how many times larger the largest class may be than the smallest, before weights are worth a thought

_ADVICE = {
    "encoding": "convert the file to UTF-8: iconv -f LATIN1 -t UTF-8 FILE > NEW (or whatever it is written in)",
    "unreadable": "look at these; they are skipped",
    "columns": "look for missing or extra separators, or set data.text and data.label; these lines are skipped",
    "empty": "remove these lines, or complete them; they are skipped",
    "blank": "nothing is lost with them; they are skipped",
    "unpaired": "find the missing or extra line; from there on, every label is wrong",
}


def class_counts(store: PairStore, classes: int) -> NDArray[np.int64]:
    """How many texts of a store each class has."""
    return np.bincount(np.asarray(store.target_ids), minlength=FIRST_CLASS + classes)[FIRST_CLASS:]


def check_labeled(settings: TextSettings, prepared: PreparedTexts) -> CheckReport:
    """Look at data that was prepared with `strict=False`, so that also bad data can be reported on as a whole."""
    findings: list[Finding] = []
    splits: dict[Role, SplitFigures] = {}
    labels, train = prepared.labels, prepared.stores["train"]
    counts = {role: class_counts(store, len(labels)) for role, store in prepared.stores.items()}
    for role, store in prepared.stores.items():
        findings += _lost(settings, role, store)
        findings += _lengths(settings, role, store)
        findings += _unknown_words(role, store)
        findings += _unknown_labels(role, store, prepared.splits[role], labels)
        findings += _again(role, store)
        if role != "train":
            findings += _leaks(role, store, train)
        read = store.counts.read
        splits[role] = SplitFigures(
            store.name, len(store), read.bad + read.pairs - len(store),
            side_figures(store.counts.source), side_figures(store.counts.target), ("text", "label"),
        )  # fmt: skip
    findings += _balance(train, labels, counts["train"])
    findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.severity))
    balance = [
        {"class": name, **{role: int(count[number]) for role, count in counts.items()}}
        for number, name in enumerate(labels.names)
    ]
    vocabulary = {"text": prepared.tokenizer.size, "classes": len(labels)}
    return CheckReport(splits, vocabulary, findings, tables={"texts of each class": balance})


def _lost(settings: TextSettings, role: Role, store: PairStore) -> Iterator[Finding]:
    """Lines that are no text with a label."""
    read = store.counts.read
    for kind, bads in read.first.items():
        first, count = bads[0], read.lost[kind]
        bad = kind == "unpaired" or read.share > settings.max_bad
        severity: Severity = "note" if kind == "blank" else "error" if bad else "warning"
        what = f"{count:,} line{'s' if count != 1 else ''} without a text and its label: {first.reason}"
        what += " (the first)" if len(bads) > 1 and kind != "blank" else ""
        advice = _ADVICE[kind]
        if severity == "error":
            advice += f"; {read.share:.1%} of all lines are bad, data.max_bad allows {settings.max_bad:.1%}"
        yield Finding(severity, role, what, count, first.file, [bad.line for bad in bads], advice)


def _lengths(settings: TextSettings, role: Role, store: PairStore) -> Iterator[Finding]:
    counts = store.counts
    if counts.overlong:
        share = counts.overlong / counts.read.pairs
        what = f"{_texts(counts.overlong)} ({share:.1%}) longer than data.max_length={settings.max_length} tokens"
        done = "skipped" if settings.overlong == "skip" else "cut"
        advice = f"they are {done}; data.max_length={percentile(counts.source.lengths, 100)} would keep all"
        severity = "warning" if share > 0.05 else "note"
        yield Finding(severity, role, what, counts.overlong, store.name, counts.overlong_first, advice)
    empty = np.flatnonzero(store.lengths()[0] <= 1)
    if len(empty):
        what = f"{_texts(len(empty))} in which the tokenizer finds nothing to read"
        yield _at("warning", role, store, empty, what, "remove them, or use data.tokenizer.kind=byte")


def _unknown_words(role: Role, store: PairStore) -> Iterator[Finding]:
    side = store.counts.source
    rate = side.unknown / max(1, side.tokens)
    if rate > MANY_UNKNOWN and role == "train":
        what = f"{side.unknown:,} of {side.tokens:,} tokens ({rate:.1%}) are not in the vocabulary"
        advice = "raise data.tokenizer.size, or use data.tokenizer.kind=bpe"
        yield Finding("warning", role, what, side.unknown, store.name, [], advice)


def _unknown_labels(role: Role, store: PairStore, split: Split, labels: Labels) -> Iterator[Finding]:
    """Labels that training does not have: nobody could learn them."""
    if not store.counts.target.unknown:
        return
    found: Counter[str] = Counter()
    lines: list[int] = []
    for pair in (item for item in split.read() if isinstance(item, Pair)):
        names = labels.writing.labels(pair.target)
        strange = [name for name, number in zip(names, labels.classes(names), strict=True) if number == UNKNOWN]
        found.update(strange)
        if strange and len(lines) < FIRST:
            lines.append(pair.line)
    shown = ", ".join(f"{name!r} ({count:,})" for name, count in found.most_common(5))
    what = f"{_texts(found.total())} with a label that training does not have: {shown}"
    advice = "look for other spellings (data.names can bring them together); these texts can only count as wrong"
    yield Finding("warning", role, what, found.total(), store.name, lines, advice)


def _balance(train: PairStore, labels: Labels, counts: NDArray[np.int64]) -> Iterator[Finding]:
    few = [f"{name!r} ({count})" for name, count in zip(labels.names, counts, strict=True) if count < FEW]
    if few:
        what = f"{len(few)} class{'es' if len(few) != 1 else ''} with fewer than {FEW} texts: {', '.join(few[:8])}"
        yield Finding("warning", "train", what, len(few), train.name, [], "bring more of them, or join classes")
    largest, smallest = int(counts.max()), int(counts.min())
    if largest > UNEVEN * max(1, smallest) and not labels.several:
        most, least = labels.names[int(counts.argmax())], labels.names[int(counts.argmin())]
        what = f"{most!r} has {largest:,} texts, {least!r} has {smallest:,}"
        advice = "watch macro_f1 beside accuracy; model.class_weights=balanced makes rare classes count more"
        yield Finding("note", "train", what, largest, train.name, [], advice)
    if labels.several:
        none = int((np.diff(train.target_at) == 1).sum())
        if none:
            what = f"{_texts(none)} ({none / len(train):.1%}) without any label"
            yield Finding("note", "train", what, none, train.name, [], "the model learns that none may be right")


def _again(role: Role, store: PairStore) -> Iterator[Finding]:
    """Texts that occur twice: with the same label, and with another one."""
    text, order = store.hashes[:, 0], np.lexsort((store.hashes[:, 1], store.hashes[:, 0]))
    before, after = order[:-1], order[1:]
    same_text = text[before] == text[after]
    same_label = store.hashes[before, 1] == store.hashes[after, 1]
    later = np.maximum(before, after)
    again, torn = np.sort(later[same_text & same_label]), np.sort(later[same_text & ~same_label])
    if len(again):
        share = len(again) / len(store)
        what = f"{_texts(len(again))} ({share:.1%}) repeat{'s' if len(again) == 1 else ''} an earlier one"
        advice = "remove them unless they are meant: they count several times"
        yield _at("warning" if share > 0.05 else "note", role, store, again, what, advice)
    if len(torn):
        what = f"{_texts(len(torn))} ({len(torn) / len(store):.1%}) that occur with another label, too"
        yield _at("warning", role, store, torn, what, "decide on one label, or set data.separator for several")


def _leaks(role: Role, store: PairStore, train: PairStore) -> Iterator[Finding]:
    """What is measured on must not be trained on."""
    rows = np.flatnonzero(np.isin(store.hashes[:, 0], train.hashes[:, 0]))
    if len(rows):
        what = f"{_texts(len(rows))} ({len(rows) / len(store):.1%}) that training has too"
        yield _at("warning", role, store, rows, what, "remove them from data.train, or scores will flatter")


def _at(severity: Severity, role: Role, store: PairStore, rows: NDArray[np.int64], what: str, advice: str) -> Finding:
    return Finding(severity, role, what, len(rows), store.name, store.lines[rows[:FIRST]].tolist(), advice)


def _texts(count: int) -> str:
    return f"{count:,} text{'s' if count != 1 else ''}"
