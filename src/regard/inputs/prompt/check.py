"""The data check of plain text: what there is of it, what is not text, what is too little."""

from collections.abc import Iterator, Mapping

from regard.data.check_report import CheckReport, Finding
from regard.data.tables import Role
from regard.inputs.prompt.store import TextStore

FEW_WINDOWS = 20  # of training text; below this a model can only learn by heart
MANY_UNKNOWN = 0.001


def check(stores: Mapping[Role, TextStore], vocabulary: int, context: int, max_bad: float) -> CheckReport:
    """`context`: tokens of a window."""
    findings: list[Finding] = []
    table = []
    for role, store in stores.items():
        counts = store.counts
        table.append(
            {
                "split": role, "documents": counts.documents, "characters": counts.characters, "bytes": counts.bytes,
                "tokens": counts.tokens, "bytes a token": f"{counts.bytes / max(1, counts.tokens):.2f}",
                "unknown": counts.unknown, "lines lost": counts.bad,
            }
        )  # fmt: skip
        findings += _findings(role, store, context, max_bad)
    findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.severity))
    return CheckReport({}, {"text": vocabulary}, findings, {}, {"text": table})


def _findings(role: Role, store: TextStore, context: int, max_bad: float) -> Iterator[Finding]:
    counts = store.counts
    if counts.bad:
        first, too_many = counts.first_bad[0], counts.bad_share > max_bad
        advice = "convert the file to UTF-8: iconv -f LATIN1 -t UTF-8 FILE > NEW; these lines are skipped"
        if too_many:
            advice += f"; {counts.bad_share:.1%} of all lines are bad, data.max_bad allows {max_bad:.1%}"
        lines = [bad.line for bad in counts.first_bad if bad.file == first.file]
        what = f"{counts.bad:,} line{'s' if counts.bad != 1 else ''} not readable as text: {first.reason}"
        yield Finding("error" if too_many else "warning", role, what, counts.bad, first.file, lines, advice)
    if counts.unknown > MANY_UNKNOWN * counts.tokens:
        what = f"{counts.unknown:,} of {counts.tokens:,} tokens are not in the vocabulary"
        advice = "raise data.tokenizer.size, or use data.tokenizer.kind=byte or bpe, which know every text"
        yield Finding("warning", role, what, counts.unknown, store.name, [], advice)
    if len(store) <= context:
        what = f"{len(store):,} tokens are less than one window of model.context={context}"
        yield Finding("warning", role, what, len(store), store.name, [], "lower model.context, or give more text")
    elif role == "train" and len(store) < FEW_WINDOWS * context:
        what = f"{len(store):,} tokens are only {len(store) // context} windows of model.context={context}"
        yield Finding("note", role, what, len(store), store.name, [], "the model will learn the text by heart")
