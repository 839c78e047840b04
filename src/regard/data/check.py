"""Check data before training: each finding has a file, lines, a count and advice.

Everything is read from the output of `prepare`, so checking costs little more than preparing. Equal examples are found
by 64-bit hashes, 16 bytes an example in memory. The chance of a collision in a hundred million texts is 1 in 3,700.

Every input defines the names of its examples and their two sides; the checks are the same for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.check_report import CheckReport, Finding, Severity, SplitFigures, by_severity, count_noun, percentile
from regard.data.check_report import side_figures as figures
from regard.data.pairs import FIRST, ReadCounts
from regard.data.store import Store
from regard.data.tables import Role

MANY_UNKNOWN = 0.02  # of all tokens of a side
ODD_RATIO = 4.0  # two sides are suspicious if their length ratio differs from the usual one by this factor ...
ODD_LENGTH = 10  # ... and have at least this many tokens; short ones vary

FEWEST_ROWS = 20  # with fewer rows, target counts are not conclusive
FEW_TARGETS = 0.05  # of the rows: targets with at most as many different values are labels

_ADVICE = {
    "encoding": "convert the file to UTF-8: iconv -f LATIN1 -t UTF-8 FILE > NEW (or from its actual encoding)",
    "unreadable": "look at these; they are skipped",
    "columns": "look for missing or extra separators, or say which columns are meant; these are skipped",
    "unequal": "find the missing or extra one; these are skipped",
    "empty": "remove these, or complete them; they are skipped",
    "unlabeled": "label these to use them; they are left out",
    "blank": "nothing is lost with them; they are skipped",
    "not found": "bring what is missing, or correct these lines; they are skipped",
    "unpaired": "find the missing or extra line; from there on, every pair is wrong",
}


def are_labels(rows: int, different: int) -> bool:
    """Return whether targets have so few different values that they are labels, not texts to generate."""
    return rows >= FEWEST_ROWS and different <= max(2, FEW_TARGETS * rows)


@dataclass(frozen=True)
class Listing:
    """Metadata of the examples of a split in memory; for a split on disk, `Store` has it."""

    name: str
    counts: ReadCounts
    lines: NDArray[np.int64]
    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty((0, 2), np.uint64))
    names: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.lines)


Checked = Listing | Store


class DataCheck:
    """Findings in the splits. The constructor checks bad lines, repeated and contradicting examples, and overlap of
    training with the other splits. An input adds its own checks, and calls `report`."""

    def __init__(
        self,
        splits: Mapping[Role, Checked],
        *,
        noun: str,
        sides: Sequence[str],
        max_bad: float,
        hashed: Sequence[str] | None = None,
        contradicts: bool = False,
        advice: Mapping[str, str] = _ADVICE,
    ) -> None:
        """noun         name of an example: pair, picture
        sides        names of the two sides that `Counts.sides` counts
        hashed       names of the two sides of `hashes`, if they differ
        contradicts  whether two targets for one input are errors: for classes, but not for translations
        advice       additional advice about bad lines, by kind
        """
        self.splits, self.noun, self.sides, self._hashed = splits, noun, sides, hashed or sides
        self.findings: list[Finding] = []
        for role, split in splits.items():
            if split.counts.sampled < 1:
                what = f"{split.counts.sampled:.1%} of all {count_noun(2, noun).split()[-1]} were looked at: a sample"
                self.add("note", role, what, "figures are of these; training reads all", count=len(split))
            self._report_losses(role, split, max_bad, {**_ADVICE, **advice})
            if len(split.hashes):
                self._again(role, split, contradicts)
                if role != "train":
                    self._leaks(role, split, splits["train"])

    def report(self, vocabulary: Mapping[str, int], estimates: Mapping[str, str] | None = None) -> CheckReport:
        """Return the report. `vocabulary`: entries of the vocabulary of each side; `estimates`: any other figure."""
        shown: dict[Role, SplitFigures] = {}
        for role, split in self.splits.items():
            read, (source, target) = split.counts.read, split.counts.sides
            skipped = read.bad + read.pairs - len(split)
            shown[role] = SplitFigures(split.name, len(split), skipped, figures(source), figures(target), self.sides)
        return CheckReport(shown, dict(vocabulary), by_severity(self.findings), dict(estimates or {}))

    # --------------------------------------------------------------------------------------------- what an input asks
    def add(
        self,
        severity: Severity,
        role: Role,
        what: str,
        advice: str,
        *,
        count: int,
        lines: Sequence[int] = (),
        file: str = "",
    ) -> None:
        found = Finding(severity, role, what, count, file or self.splits[role].name, list(lines), advice)
        self.findings.append(found)

    def at(self, severity: Severity, role: Role, rows: NDArray[Any], what: str, advice: str) -> None:
        """Add a finding about these rows, if any. `what` follows their number: "12 pictures ..."."""
        if len(rows):
            split: Checked = self.splits[role]
            first: list[int] = rows[:FIRST].tolist()
            lines = [line for line in split.lines[first].tolist() if line]
            names = ", ".join(split.names[row] for row in first) if split.names and not lines else ""
            what = f"{count_noun(len(rows), self.noun)} {what}"
            self.add(severity, role, what, advice, count=len(rows), lines=lines, file=names)

    def odd(self, kinds: Mapping[str, tuple[Severity, str, str]]) -> None:
        """Add findings that were counted while reading, by kind: severity, text (after the number), advice."""
        for role, split in self.splits.items():
            for kind, seen in split.counts.odd.items():
                if kind in kinds:
                    severity, what, advice = kinds[kind]
                    what, names = f"{count_noun(seen.count, self.noun)} {what}", ", ".join(seen.names)
                    self.add(severity, role, what, advice, count=seen.count, lines=seen.lines, file=names)

    def overlong(self, limit: str, done: str, setting: tuple[str, int] | None = None) -> None:
        """Report examples longer than `limit`. `done` is their treatment in training: skipped or cut; all are scored.
        `setting`: its field, and its value in tokens of a side, if raising it is sensible advice."""
        for role, split in self.splits.items():
            if not (count := split.counts.count("overlong")):
                continue
            they = f"they are {done}" if role == "train" else "they are scored as well"
            share, advice = count / max(1, split.counts.read.pairs), f"{they}; raise it to keep them"
            if setting is not None:
                field, value = setting
                nearly, whole = (
                    max(percentile(side.lengths, percent) for side in split.counts.sides) for percent in (99.9, 100)
                )
                advice = f"{they}; {field}={whole} would keep all"
                advice += f", {nearly} all but one in a thousand of each side" if value < nearly < whole else ""
            what, seen = (
                f"{count_noun(count, self.noun)} ({share:.1%}) longer than {limit}",
                split.counts.odd["overlong"],
            )
            severity = "warning" if share > 0.01 else "note"
            self.add(severity, role, what, advice, count=count, lines=seen.lines, file=", ".join(seen.names))

    def unknown(self, side: int, advice: str, many: float = MANY_UNKNOWN) -> None:
        """Report tokens of a side, 0 or 1, that are not in its vocabulary."""
        for role, split in self.splits.items():
            seen = split.counts.sides[side]
            rate = seen.unknown / max(1, seen.tokens)
            if rate > many:
                what = f"{seen.unknown:,} of {seen.tokens:,} {self.sides[side]} tokens ({rate:.1%})"
                what += " are not in the vocabulary"
                self.add("warning", role, what, advice, count=seen.unknown)

    def unequal(self, role: Role, one: NDArray[Any], other: NDArray[Any], what: str, advice: str) -> None:
        """Report rows with an unusual ratio of lengths, except very short ones."""
        if not len(one):
            return
        ratio = np.log(np.maximum(one, 1) / np.maximum(other, 1))
        odd = np.abs(ratio - np.median(ratio)) > np.log(ODD_RATIO)
        self.at("warning", role, np.flatnonzero(odd & (np.maximum(one, other) >= ODD_LENGTH)), what, advice)

    # -------------------------------------------------------------------------------------------- what is always asked
    def _report_losses(self, role: Role, split: Checked, max_bad: float, advice: Mapping[str, str]) -> None:
        read = split.counts.read
        too_many = read.share > max_bad
        for kind, bads in read.first.items():
            first, count, lines = bads[0], read.lost[kind], [bad.line for bad in bads if bad.line]
            severity: Severity = "note" if kind == "blank" else "error" if too_many else "warning"
            severity = "warning" if kind == "unlabeled" else severity
            what = f"{count_noun(count, self.noun)} cannot be used: {first.reason}"
            what += f": {first.text!r}" if first.text else ""
            what += " (the first)" if len(bads) > 1 else ""
            todo = advice[kind]
            if kind == "blank":
                what = count_noun(count, "blank line")
            elif kind == "unpaired":
                severity, what = "error", first.reason
            elif kind == "unlabeled":
                what = f"{count_noun(count, self.noun)} {'have' if count != 1 else 'has'} no label"
            elif too_many:
                todo += f"; {read.share:.1%} of all are bad, data.max_bad allows {max_bad:.1%}"
            self.add(severity, role, what, todo, count=count, lines=lines, file=first.file)

    def _again(self, role: Role, split: Checked, contradicts: bool) -> None:
        """Report repeated examples, and inputs with two targets."""
        hashes = split.hashes
        order = np.lexsort((hashes[:, 1], hashes[:, 0]))
        before, after = order[:-1], order[1:]
        same_source, same_target = (hashes[before, side] == hashes[after, side] for side in (0, 1))
        later = np.maximum(before, after)
        again, torn = np.sort(later[same_source & same_target]), np.sort(later[same_source & ~same_target])
        share, verb = len(again) / len(split), "repeat" if len(again) != 1 else "repeats"
        advice = "remove them unless they are meant: they count several times"
        self.at("warning" if share > 0.05 else "note", role, again, f"({share:.1%}) {verb} an earlier one", advice)
        if contradicts:
            what = f"({len(torn) / len(split):.1%}) that occur with another {self._hashed[1]}, too"
            self.at("warning", role, torn, what, f"decide on one {self._hashed[1]}")

    def _leaks(self, role: Role, split: Checked, train: Checked) -> None:
        """Report test or validation examples that are in the training data."""
        whole = np.isin(_join_hashes(split.hashes), _join_hashes(train.hashes))
        half = np.isin(split.hashes[:, 0], train.hashes[:, 0]) & ~whole
        what = f"({whole.mean():.1%}) that training has too"
        advice = "remove them from data.train, or scores will flatter"
        self.at("warning", role, np.flatnonzero(whole), what, advice)
        what = f"({half.mean():.1%}) whose {self._hashed[0]} training has with another {self._hashed[1]}"
        advice = "remove them from data.train if they are the same in meaning"
        self.at("warning", role, np.flatnonzero(half), what, advice)


def _join_hashes(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return hashes[:, 0] * np.uint64(0x9E3779B97F4A7C15) + hashes[:, 1]


def unknown_advice(tokenizer: Any, size: int) -> str:
    """Return advice about many unknown tokens with a vocabulary of `size` entries and these `tokenizer` settings."""
    ways = []
    if size >= tokenizer.size:
        ways.append("raise data.tokenizer.size")
    if tokenizer.min_frequency > 1:
        ways.append("lower data.tokenizer.min_frequency")
    if tokenizer.kind in ("word", "space"):
        ways.append("use data.tokenizer.kind=bpe")
    elif tokenizer.kind != "byte":
        ways.append("use data.tokenizer.kind=byte, which knows every text")
    return ", or ".join([*ways, "give training data that has them"])
