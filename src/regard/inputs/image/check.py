"""What is wrong with pictures, before anything is trained on them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from regard.data.check_report import Finding, Severity
from regard.data.read_report import FIRST
from regard.data.tables import Role
from regard.inputs.image.examples import PictureExamples
from regard.inputs.image.store import PictureStore

_ADVICE = {
    "unreadable": "look at these files; they are skipped",
    "not found": "bring the files, correct the list, or set data.images; these lines are skipped",
    "columns": "look for missing or extra separators, or set the columns; these lines are skipped",
    "encoding": "convert the list to UTF-8; these lines are skipped",
    "empty": "remove these lines, or complete them; they are skipped",
    "blank": "nothing is lost with them; they are skipped",
}


def picture_findings(stores: dict[Role, PictureStore], max_bad: float) -> list[Finding]:
    """Bad files, odd ones, pictures that occur twice, and test pictures that training has too."""
    found: list[Finding] = []
    for role, store in stores.items():
        found += _lost(role, store, max_bad)
        found += _odd(role, store)
        found += _again(role, store)
        if role != "train":
            found += _leaks(role, store, stores["train"])
    return sorted(found, key=lambda finding: ("error", "warning", "note").index(finding.severity))


def text_findings(role: Role, examples: PictureExamples, max_length: int | None, side: str) -> Iterator[Finding]:
    """Texts that are too long, and pictures with more or fewer of them than is usual."""
    store = examples.store
    if examples.overlong:
        what = f"{examples.overlong:,} {side}s longer than data.max_length={max_length} tokens"
        advice = "they are left out of training; raise data.max_length to keep them"
        yield Finding("note", role, what, examples.overlong, store.name, [], advice)
    numbers = Counter(len(entry.texts) for entry in store.entries)
    if len(numbers) > 1:
        usual = numbers.most_common(1)[0][0]
        odd = [entry for entry in store.entries if len(entry.texts) != usual]
        what = f"{len(odd):,} pictures have more or fewer {side}s than the usual {usual}"
        names = ", ".join(entry.name for entry in odd[:3])
        yield Finding("note", role, what, len(odd), names, [], "nothing has to be done")


def _lost(role: Role, store: PictureStore, max_bad: float) -> Iterator[Finding]:
    read = store.read
    for kind, bads in read.first.items():
        severity: Severity = "note" if kind == "blank" else "error" if read.share > max_bad else "warning"
        shown = "; ".join(str(bad) if not bad.line else bad.reason for bad in bads[:3])
        what = f"{read.lost[kind]:,} could not be used: {shown}" + (" …" if len(bads) > 3 else "")
        advice = _ADVICE.get(kind, "they are skipped")
        if severity == "error":
            advice += f"; {read.share:.1%} of all are bad, data.max_bad allows {max_bad:.1%}"
        lines = [bad.line for bad in bads if bad.line]
        where = bads[0].file if lines else str(Path(bads[0].file).parent)
        yield Finding(severity, role, what, read.lost[kind], where, lines, advice)


def _odd(role: Role, store: PictureStore) -> Iterator[Finding]:
    for note, count in store.notes.counts.items():
        names = ", ".join(store.notes.first[note])
        what = f"{count:,} picture{'s' if count != 1 else ''}: {note}"
        yield Finding("note", role, what, count, names, [], "they are used as said")


def _again(role: Role, store: PictureStore) -> Iterator[Finding]:
    _, first, counts = np.unique(store.hashes, return_index=True, return_counts=True)
    if (counts > 1).any():
        again = int((counts - 1).sum())
        names = ", ".join(store.entries[row].name for row in first[counts > 1][:FIRST])
        what = f"{again:,} picture{'s' if again != 1 else ''} ({again / len(store):.1%}) the same as an earlier one"
        severity: Severity = "warning" if again > 0.05 * len(store) else "note"
        yield Finding(severity, role, what, again, names, [], "remove them unless they are meant")


def _leaks(role: Role, store: PictureStore, train: PictureStore) -> Iterator[Finding]:
    rows = np.flatnonzero(np.isin(store.hashes, train.hashes))
    if len(rows):
        names = ", ".join(store.entries[row].name for row in rows[:FIRST])
        plural = "s" if len(rows) != 1 else ""
        what = f"{len(rows):,} picture{plural} ({len(rows) / len(store):.1%}) that training has too"
        yield Finding("warning", role, what, len(rows), names, [], "remove them, or scores will flatter")
