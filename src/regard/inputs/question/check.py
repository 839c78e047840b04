"""What is wrong with questions and answers, before anything is trained on them."""

from collections.abc import Iterator

import numpy as np

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
from regard.inputs.question.settings import FRAME, QuestionDataSettings
from regard.inputs.question.store import QuestionStore

_ADVICE = {
    "encoding": "convert the file to UTF-8: iconv -f LATIN1 -t UTF-8 FILE > NEW (or whatever it is written in)",
    "unreadable": "look at these; they are skipped",
    "columns": "look for missing or extra separators, or set data.question, data.document, data.answer; skipped",
    "empty": "remove these, or complete them; they are skipped",
    "blank": "nothing is lost with them; they are skipped",
    "not found": "an answer must stand in its document letter by letter; they are skipped",
}
_ODD: dict[str, tuple[Severity, str, str]] = {
    "moved": ("warning", "with an answer that is not where the file says", "the nearest place with that text is taken"),
    "first": ("note", "with an answer that stands in the document several times", "the first is taken; data.start"),
    "loose": ("note", "with an answer that begins or ends inside a token", "the whole tokens are learned"),
    "lost": ("warning", "with an answer in which the tokenizer finds nothing to read", "they are skipped"),
    "cut": ("note", "longer than data.max_question", "they are cut"),
}


def check_questions(settings: QuestionDataSettings, stores: dict[Role, QuestionStore], vocabulary: int) -> CheckReport:
    """Of data that was prepared with `strict=False`, so that also bad data can be reported on as a whole."""
    findings: list[Finding] = []
    splits: dict[Role, SplitFigures] = {}
    for role, store in stores.items():
        findings += _lost(settings, role, store)
        findings += _odd(role, store)
        findings += _answers(role, store)
        findings += _lengths(settings, role, store)
        findings += _unknown(role, store)
        if role != "train":
            findings += _leaks(role, store, stores["train"])
        counts = store.counts
        splits[role] = SplitFigures(
            store.name, len(store), counts.read.bad + counts.read.pairs - len(store),
            side_figures(counts.question), side_figures(counts.document), ("question", "document"),
        )  # fmt: skip
    findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.severity))
    return CheckReport(splits, {"both": vocabulary}, findings)


def _lost(settings: QuestionDataSettings, role: Role, store: QuestionStore) -> Iterator[Finding]:
    read = store.counts.read
    for kind, bads in read.first.items():
        first, count = bads[0], read.lost[kind]
        severity: Severity = "note" if kind == "blank" else "error" if read.share > settings.max_bad else "warning"
        what = f"{_questions(count)} cannot be used: {first.reason}" + (f": {first.text!r}" if first.text else "")
        what = f"{count:,} blank line{'s' if count != 1 else ''}" if kind == "blank" else what
        what += " (the first)" if len(bads) > 1 and kind != "blank" else ""
        advice = _ADVICE[kind]
        if severity == "error":
            advice += f"; {read.share:.1%} of all are bad, data.max_bad allows {settings.max_bad:.1%}"
        yield Finding(severity, role, what, count, first.file, [bad.line for bad in bads], advice)


def _odd(role: Role, store: QuestionStore) -> Iterator[Finding]:
    for kind, seen in store.counts.odd.items():
        severity, what, advice = _ODD[kind]
        yield Finding(severity, role, f"{_questions(seen.count)} {what}", seen.count, store.name, seen.lines, advice)


def _answers(role: Role, store: QuestionStore) -> Iterator[Finding]:
    counts = store.counts
    if counts.several:
        what = f"{_questions(counts.several)} with several right answers"
        advice = "the first is learned; any of them counts as right in scores"
        yield Finding("note", role, what, counts.several, store.name, [], advice)
    if counts.unanswered:
        share = counts.unanswered / max(1, len(store))
        what = f"{_questions(counts.unanswered)} ({share:.1%}) without an answer"
        yield Finding("note", role, what, counts.unanswered, store.name, [], "the model learns to say so")


def _lengths(settings: QuestionDataSettings, role: Role, store: QuestionStore) -> Iterator[Finding]:
    questions, documents = store.lengths()
    long = np.flatnonzero(documents + questions + FRAME > settings.max_length)
    if len(long):
        what = f"{_questions(len(long))} ({len(long) / len(store):.1%}) whose document is read in several windows"
        most = percentile(store.counts.document.lengths, 100) + settings.max_question + FRAME
        advice = f"nothing is lost; data.max_length={most} would read each at once"
        yield Finding("note", role, what, len(long), store.name, store.lines[long[:FIRST]].tolist(), advice)


def _unknown(role: Role, store: QuestionStore) -> Iterator[Finding]:
    for name, side in (("question", store.counts.question), ("document", store.counts.document)):
        rate = side.unknown / max(1, side.tokens)
        if rate > MANY_UNKNOWN:
            what = f"{side.unknown:,} of {side.tokens:,} {name} tokens ({rate:.1%}) are not in the vocabulary"
            advice = "raise data.tokenizer.size, or use data.tokenizer.kind=bpe"
            yield Finding("warning", role, what, side.unknown, store.name, [], advice)


def _leaks(role: Role, store: QuestionStore, train: QuestionStore) -> Iterator[Finding]:
    """What is measured on must not be trained on."""
    factor = np.uint64(0x9E3779B97F4A7C15)
    mine, theirs = (one.hashes[:, 0] * factor + one.hashes[:, 1] for one in (store, train))
    rows = np.flatnonzero(np.isin(mine, theirs))
    if len(rows):
        what = f"{_questions(len(rows))} ({len(rows) / len(store):.1%}) that training has too"
        advice = "remove them from data.train, or scores will flatter"
        yield Finding("warning", role, what, len(rows), store.name, store.lines[rows[:FIRST]].tolist(), advice)


def _questions(count: int) -> str:
    return f"{count:,} question{'s' if count != 1 else ''}"
