"""Shared base of outputs whose targets are classes: class names and counts from the training data. Labels of whole
inputs and tags of words use it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data.check_report import CheckReport, Finding
from regard.data.examples import Examples
from regard.data.labels import FIRST, UNKNOWN, LabelFormat, Labels
from regard.data.pairs import FIRST as SHOWN
from regard.data.tables import Role
from regard.errors import RegardError
from regard.inputs.base import Vocabulary
from regard.tasks.base import I, M, Output, R

LABELS = "labels.json"
FEW = 10  # a class with fewer training examples is reported
UNEVEN = 10.0  # ratio of the largest class to the smallest above which weights are suggested


class ClassOutput(Output[R, I, M], Generic[R, I, M]):
    learns_from_all: ClassVar[bool] = True
    takes_instead: ClassVar[bool] = True
    fewest: ClassVar[int] = 2  # minimum number of classes

    def __init__(self, recipe: R, input: I) -> None:
        super().__init__(recipe, input)
        self._labels: Labels | None = None
        self._counts: NDArray[np.int64] | None = None  # training examples of each class, for class weights
        self._examples = 0

    @property
    def writing(self) -> LabelFormat:
        """Return how classes are written in the user's files."""
        return self.recipe.data.columns.target_text or LabelFormat()

    # -------------------------------------------------------------------------------------------------------- targets
    @property
    def key(self) -> Any:
        return None if self._labels is not None else ["labels", repr(self.writing)]

    def learn(self, texts: Iterable[str]) -> Labels:
        """Learn the labels that occur in the training data; a model cannot learn any other."""
        if self._labels is None:
            self._labels = self._enough(Labels.learn_labels(texts, self.writing))
        return self._labels

    def load(self, written: str) -> Labels:
        self._labels = self._enough(Labels.from_json(written))
        return self._labels

    def _enough(self, labels: Labels) -> Labels:
        if len(labels) < self.fewest:
            found = ", ".join(map(repr, labels.names)) or "none"
            where = f"data.train={self.recipe.data.train}"
            raise RegardError(f"{where}: a classifier needs at least two classes; found {found}")
        return labels

    def choice(self, word: str) -> int:
        return self.labels.require(word)

    def save(self, folder: Path) -> None:
        self.labels.save(folder / LABELS)

    def restore(self, folder: Path) -> None:
        self._labels = Labels.load(folder / LABELS)

    @property
    def labels(self) -> Labels:
        if self._labels is None:
            raise RuntimeError("there are no labels yet: prepare or restore comes first")
        return self._labels

    @property
    def vocabulary(self) -> Vocabulary:
        return self.labels

    # ------------------------------------------------------------------------------------------------------- training
    def prepare(self, cache: Path, *, strict: bool = True) -> dict[Role, Any]:
        splits = super().prepare(cache, strict=strict)
        self._counts, self._examples = class_counts(splits["train"], len(self.labels)), len(splits["train"])
        return splits

    def class_weights(self) -> Float[Tensor, " N"] | None:
        """Return the class weights for training; a saved run needs none."""
        if self._counts is None:
            return None
        total = self._examples if self.several else int(self._counts.sum())
        return class_weights(self.recipe.model.class_weights, self.labels, self._counts, total, several=self.several)

    @property
    def several(self) -> bool:
        """Whether an item may have more than one class."""
        return self.labels.several

    # ---------------------------------------------------------------------------------------------------------- check
    def check(self, splits: dict[Role, Any]) -> CheckReport:
        """Report problems of inputs and labels: unknown labels, rare labels, classes of very unequal size."""
        report, noun = super().check(splits), self.counted
        counts = {role: class_counts(one, len(self.labels)) for role, one in splits.items()}
        findings = [*report.findings, *self._balance(splits["train"], counts["train"])]
        for role, one in splits.items():
            findings += self._unknown_labels(role, one)
        findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.severity))
        balance = [
            {"class": name, **{role: int(count[number]) for role, count in counts.items()}}
            for number, name in enumerate(self.labels.names)
        ]
        sizes = dict(list(report.vocabulary.items())[:-1]) if len(report.vocabulary) > 1 else {}
        return replace(
            report, findings=findings, vocabulary=sizes | {"classes": len(self.labels)},
            tables=report.tables | {f"{plural(noun)} of each class": balance},
        )  # fmt: skip

    @property
    def counted(self) -> str:
        """Return the noun for one classified item."""
        return self.recipe.data.columns.sides[0]

    def _unknown_labels(self, role: Role, examples: Examples) -> Iterator[Finding]:
        """Report labels that the training data does not have."""
        if role == "train":
            return
        found: Counter[str] = Counter()
        lines: list[int] = []
        for text, line in examples.targets_read():
            names = self.labels.writing.labels(text)
            strange = [name for name, one in zip(names, self.labels.classes(names), strict=True) if one == UNKNOWN]
            found.update(strange)
            if strange and line and len(lines) < SHOWN:
                lines.append(line)
        if found:
            shown = ", ".join(f"{name!r} ({count:,})" for name, count in found.most_common(5))
            what = f"{_count(found.total(), self.counted)} with a label that is not in the training data: {shown}"
            advice = "look for other spellings; these can only count as wrong"
            yield Finding("warning", role, what, found.total(), examples.name, lines, advice)

    def _balance(self, train: Examples, counts: NDArray[np.int64]) -> Iterator[Finding]:
        labels, noun = self.labels, self.counted
        few = [f"{name!r} ({count})" for name, count in zip(labels.names, counts, strict=True) if count < FEW]
        if few:
            what = f"{len(few)} class{'es' if len(few) != 1 else ''} with fewer than {FEW} {plural(noun)}: "
            advice = "bring more of them, or join classes"
            yield Finding("warning", "train", what + ", ".join(few[:8]), len(few), train.name, [], advice)
        largest, smallest = int(counts.max()), int(counts.min())
        if largest > UNEVEN * max(1, smallest) and not self.several:
            most, least = labels.names[int(counts.argmax())], labels.names[int(counts.argmin())]
            what = f"{most!r} has {largest:,} {plural(noun)}, {least!r} has {smallest:,}"
            advice = "watch macro_f1 beside accuracy; model.class_weights=balanced makes rare classes count more"
            yield Finding("note", "train", what, largest, train.name, [], advice)


def class_counts(examples: Examples, classes: int) -> NDArray[np.int64]:
    """Return the number of targets of each class in a split."""
    ids = [examples.target(row) for row in range(len(examples))]
    return np.bincount(np.concatenate(ids) if ids else [], minlength=FIRST + classes)[FIRST:]


def class_weights(
    request: str | dict[str, float], labels: Labels, counts: NDArray[np.int64], total: int, *, several: bool
) -> Float[Tensor, " N"] | None:
    """Return weights whose mean over the training examples is one (with several labels: the weight of a yes relative
    to a no).

    balanced: one label, w_c = M / (N m_c), so that all classes weigh the same together (King and Zeng 2001); several
    labels, w_c = (M − m_c) / m_c, so that yes and no do. `counts` holds m_c of the training data, `total` is M.
    """
    if request == "none":
        return None
    count = torch.from_numpy(counts).clamp(min=1).float()
    if isinstance(request, dict):
        given = {labels.require(name): value for name, value in request.items()}
        found = torch.tensor([given.get(number, 1.0) for number in range(len(labels))])
        return found if several else found * total / (found * count).sum()
    return (total - count).clamp(min=1) / count if several else total / (len(labels) * count)


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural; "series" stays as it is."""
    return noun if noun.endswith("s") else f"{noun}s"
