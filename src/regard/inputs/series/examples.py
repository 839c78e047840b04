"""Series with labels as examples, and what `regard check` says of them."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.check_report import PERCENTILES, CheckReport, Finding, SideFigures, SplitFigures
from regard.data.examples import Example, Examples
from regard.data.tables import Role
from regard.inputs.base import Vocabulary
from regard.inputs.series.labeled import LabeledTable
from regard.inputs.series.windows import Scaler
from regard.special_tokens import END


class SeriesExamples(Examples):
    """In memory, scaled: series are small beside what else a model reads."""

    def __init__(
        self, table: LabeledTable, scaler: Scaler, vocabulary: Vocabulary, collate: Callable[[Sequence[Any]], Any]
    ) -> None:
        self.table, self._collate = table, collate
        self.name, self.counts = table.where, table.counts
        self._items = [one.item(scaler) for one in table.series]
        end = END if vocabulary.specials.end is None else vocabulary.specials.end
        ids = vocabulary.encode_batch([one.label for one in table.series])
        self._ids = [np.array([*one, end], np.int32) for one in ids]
        self.unknown = [number for number, one in enumerate(ids) if vocabulary.specials.unk in one]

    def __len__(self) -> int:
        return len(self._items)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        steps, tokens = ([len(one) for one in some] for some in ([i.numbers for i in self._items], self._ids))
        return np.array(steps, np.int32), np.array(tokens, np.int32)

    def source(self, rows: NDArray[np.int64], epoch: int) -> Any:
        return self._collate([self._items[int(row)].numbers for row in rows])

    def target(self, row: int) -> NDArray[Any]:
        return self._ids[row]

    def digest(self) -> str:
        seen = blake2b(digest_size=10)
        for item, ids in zip(self._items, self._ids, strict=True):
            seen.update(b"%d " % len(item.numbers) + item.numbers.numpy().tobytes() + ids.tobytes())
        return seen.hexdigest()

    def examples(self, most: int) -> list[Example]:
        """Evenly spread: files have one class after the other."""
        rows = np.unique(np.linspace(0, len(self) - 1, min(most, len(self))).astype(int))
        return [Example(self._items[n], (self.table.series[n].label,), self.table.series[n].place) for n in rows]


def labeled_report(splits: dict[Role, SeriesExamples], vocabulary: Vocabulary) -> CheckReport:
    figures: dict[Role, SplitFigures] = {}
    findings: list[Finding] = []
    for role, one in splits.items():
        steps, tokens = one.lengths()
        spread = {p: int(np.percentile(steps, p)) for p in PERCENTILES}
        series, label = SideFigures(int(steps.sum()), 0.0, spread), int((tokens - 1).sum())
        labels = SideFigures(
            label, len(one.unknown) / max(1, label), {p: int(np.percentile(tokens, p)) for p in PERCENTILES}
        )
        figures[role] = SplitFigures(one.name, len(one), one.counts.bad, series, labels, ("series", "label"))
        findings += one.table.findings
        if one.unknown:
            first = one.table.series[one.unknown[0]]
            what = f"{len(one.unknown)} series with a label that training does not have, such as {first.label!r}"
            findings.append(Finding("warning", role, what, len(one.unknown), one.name, [], "they count as wrong"))
    return CheckReport(figures, {"label": vocabulary.size}, findings)
