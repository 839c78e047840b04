"""What is wrong with recordings and their texts, before anything is trained on them."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from regard.data.check_report import CheckReport, Finding, Severity, SplitFigures, side_figures
from regard.data.read_report import FIRST
from regard.data.tables import Role
from regard.inputs.sound.features import frame_count
from regard.inputs.sound.settings import RecordingSettings
from regard.inputs.sound.store import SpeechStore

ODD_RATE = 4.0  # a text is suspicious if it has so many times more or fewer tokens a second than is usual ...
ODD_TOKENS = 8  # ... and is not very short
MANY_UNKNOWN = 0.02

_ADVICE = {
    "encoding": "convert the text to UTF-8; these recordings are skipped",
    "unreadable": "look at these files; they are skipped",
    "columns": "look for missing or extra separators, or set data.path, data.text or data.name_text; they are skipped",
    "empty": "remove them, or complete them: silence with a text teaches a model to invent; they are skipped",
    "blank": "nothing is lost with them",
    "not found": "look for misspelt paths: they are taken from the folder of the list; they are skipped",
}


def check_speech(
    settings: RecordingSettings, stores: dict[Role, SpeechStore], vocabulary: int, reduction: int
) -> CheckReport:
    """`vocabulary`: its size; `reduction`: frames for each vector of the model's memory."""
    findings: list[Finding] = []
    splits: dict[Role, SplitFigures] = {}
    hours: dict[str, str] = {}
    for role, store in stores.items():
        counts = store.counted.counts
        findings += _lost(settings, role, store)
        findings += _suspicious(settings, role, store, reduction)
        if role != "train":
            findings += _leaks(role, store, stores["train"])
        skipped = counts.read.bad + counts.read.pairs - len(store)
        splits[role] = SplitFigures(
            store.name, len(store), skipped, side_figures(counts.source), side_figures(counts.target),
            ("frames", settings.columns.sides[1]),
        )  # fmt: skip
        hours[f"sound in {role}"] = _duration(store.counted.seconds)
    findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.severity))
    return CheckReport(splits, {settings.columns.sides[1]: vocabulary}, findings, hours)


def _lost(settings: RecordingSettings, role: Role, store: SpeechStore) -> Iterator[Finding]:
    read = store.counted.counts.read
    too_many = read.share > settings.max_bad
    for kind, bads in read.first.items():
        severity: Severity = "note" if kind == "blank" else "error" if too_many else "warning"
        count = read.lost[kind]
        what = f"{_recordings(count)} cannot be used: {bads[0].reason}{' (the first)' if len(bads) > 1 else ''}"
        advice = _ADVICE[kind]
        if severity == "error":
            advice += f"; {read.share:.1%} of all are bad, data.max_bad allows {settings.max_bad:.1%}"
        yield Finding(severity, role, what, count, bads[0].file, [bad.line for bad in bads], advice)


def _suspicious(settings: RecordingSettings, role: Role, store: SpeechStore, reduction: int) -> Iterator[Finding]:
    counted, counts = store.counted, store.counted.counts
    if counts.overlong:
        advice = "they are skipped; raise the limit if memory allows"
        what = f"{_recordings(counts.overlong)} longer than {settings.limits}"
        yield Finding("warning", role, what, counts.overlong, store.name, counts.overlong_first, advice)
    if counted.clipped:
        what = f"{_recordings(counted.clipped)} clipped: recorded too loud"
        advice = "they are used as they are; record again if there are many"
        yield Finding("note", role, what, counted.clipped, store.name, counted.clipped_first, advice)
    rate = counts.target.unknown / max(1, counts.target.tokens)
    if rate > MANY_UNKNOWN:
        what = f"{counts.target.unknown:,} of {counts.target.tokens:,} tokens ({rate:.1%}) are not in the vocabulary"
        yield Finding("warning", role, what, counts.target.unknown, store.name, [], "raise data.tokenizer.size")
    samples, tokens = store.lengths()
    vectors = np.array([frame_count(int(count), settings.sound) for count in samples]) // reduction
    crowded = np.flatnonzero(tokens - 1 > np.maximum(vectors, 1))
    if len(crowded):
        what = f"{_recordings(len(crowded))} with more tokens of text than the model has vectors of sound"
        advice = "look whether the text belongs to the sound; or lower model.pyramid, or use sub-words"
        yield _at("warning", role, store, crowded, what, advice)
    pace = np.log(tokens / np.maximum(samples, 1))
    odd = (np.abs(pace - np.median(pace)) > np.log(ODD_RATE)) & (tokens >= ODD_TOKENS)
    odd[crowded] = False
    if odd.any():
        rows = np.flatnonzero(odd)
        what = f"{_recordings(len(rows))} with {ODD_RATE:g} times more or less text a second than usual"
        yield _at("warning", role, store, rows, what, "look whether the text belongs to the sound")


def _leaks(role: Role, store: SpeechStore, train: SpeechStore) -> Iterator[Finding]:
    rows = np.flatnonzero(np.isin(store.hashes[:, 0], train.hashes[:, 0]))
    if len(rows):
        what = f"{_recordings(len(rows))} ({len(rows) / len(store):.1%}) that training has too"
        yield _at("warning", role, store, rows, what, "remove them from data.train, or scores will flatter")


def _at(severity: Severity, role: Role, store: SpeechStore, rows: NDArray[np.int64], what: str, advice: str) -> Finding:
    return Finding(severity, role, what, len(rows), store.name, store.lines[rows[:FIRST]].tolist(), advice)


def _recordings(count: int) -> str:
    return f"{count:,} recording{'s' if count != 1 else ''}"


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 7200 else f"{seconds / 60:.1f} minutes"
