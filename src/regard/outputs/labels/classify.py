"""A label, or several, for each input.

files → examples → batches → encoder → Memory → pooling → classes → loss        (training)
input → encoder → Memory → pooling → classes → label and probabilities          (prediction)

What comes in, text or pictures, is read by a `Reader`; labels, scores, calibration and answers are the same for all.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from regard import catalog
from regard.errors import CallError
from regard.look import AttentionRecord
from regard.look.records import Head
from regard.models.classifier import Classifier, class_loss
from regard.old_job import PLAIN, Output, Picture, Prediction, Scores, Takes, Wish
from regard.outputs.labels import classes
from regard.outputs.labels.classify_settings import ClassifyRecipe
from regard.outputs.labels.labels import UNKNOWN, Labels
from regard.settings.recipe import Recipe

PICTURES = 6  # examples in the report


@dataclass(frozen=True, kw_only=True)
class Classified(Prediction):
    """The labels that were given, and the probability of every class, the most probable first."""

    labels: list[str]
    probabilities: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "labels": self.labels, "probabilities": self.probabilities}


@dataclass(frozen=True)
class Example:
    """Something to classify, as the model is given it, and its labels."""

    input: Any
    labels: tuple[str, ...]


@runtime_checkable
class Reader(Protocol):
    """What depends on the kind of input. Made from a recipe; `prepare` or `restore` brings the labels."""

    @property
    def labels(self) -> Labels: ...

    def under(self, recipe: ClassifyRecipe) -> "Reader":
        """The same with what was prepared or restored, under a changed recipe."""
        ...

    def prepare(self, cache: Path) -> None: ...
    def check(self, cache: Path) -> Any: ...
    def save(self, folder: Path) -> None: ...
    def restore(self, folder: Path) -> None: ...
    def fingerprint(self) -> str: ...

    def build(self) -> Classifier:
        """The model, untrained."""
        ...

    def batches(self) -> Any:
        """The training data: batches with `inputs` and `labels`."""
        ...

    def valid(self, model: Classifier) -> tuple[Float[np.ndarray, "M N"], list[tuple[int, ...]]]:
        """Logits and classes of all validation examples."""
        ...

    def some(self, most: int) -> list[Example]:
        """A few validation examples, to be shown."""
        ...

    def test(self) -> tuple[list[Example], str]:
        """All test examples, and a sentence about what was skipped, if anything was."""
        ...

    def inputs(self, words: Sequence[str]) -> list[Any]: ...

    def shown(self, one: Any) -> str:
        """An input, in words."""
        ...

    def logits(self, model: Classifier, inputs: Sequence[Any]) -> Float[np.ndarray, "M N"]: ...

    def look(
        self, model: Classifier, one: Any, label: int, *, method: str, layer: int | None, head: Head
    ) -> AttentionRecord:
        """Where the model looks when it says this class, with evidence for the chosen layer and head."""
        ...


class Classify:
    """The job, under one recipe."""

    def __init__(self, recipe: Recipe, reader: Reader | None = None) -> None:
        assert isinstance(recipe, ClassifyRecipe)
        self.recipe = recipe
        self.reader: Reader = reader or catalog.find(catalog.READERS, recipe.data.kind)(recipe)

    def under(self, recipe: Recipe) -> "Classify":
        assert isinstance(recipe, ClassifyRecipe)
        return Classify(recipe, self.reader.under(recipe))

    @property
    def takes(self) -> Takes:
        return self.recipe.data.kind

    @property
    def labels(self) -> Labels:
        return self.reader.labels

    # ------------------------------------------------------------------------------------------------------- training
    def check(self, cache: Path) -> Any:
        return self.reader.check(cache)

    def prepare(self, cache: Path) -> None:
        self.reader.prepare(cache)

    def build(self) -> Classifier:
        torch.manual_seed(self.recipe.training.seed)
        return self.reader.build()

    def batches(self) -> Any:
        return self.reader.batches()

    def fingerprint(self) -> str:
        return self.reader.fingerprint()

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Loss (without weights of classes and smoothing) and scores of all validation examples."""
        assert isinstance(model, Classifier)
        logits, rows = self.reader.valid(model)
        loss = class_loss(torch.from_numpy(logits), torch.from_numpy(self.labels.target(rows)))
        said = classes.answers(logits, self.labels, self.recipe.decoding.threshold)
        return {"loss": float(loss.total) / max(1, int(loss.count)), **classes.quick(rows, said, self.labels)}

    def sample(self, model: nn.Module) -> str:
        example = self.reader.some(3)[-1]
        found = self.predict(model, [example.input])[0]
        return f"{found.input}\n→ {found.text} ({found.score:.0%})\n= {self._joined(example.labels)}"

    def watch(self, model: nn.Module, most: int) -> list[AttentionRecord]:
        """A few validation examples with their right label; of a model that does not attend, nothing."""
        records = []
        for example in self.reader.some(most):
            with suppress(CallError):
                records.append(self.look(model, example.input, Wish(next(iter(example.labels), None))))
        return records

    def pictures(self, model: nn.Module) -> list[Picture]:
        """The confusion matrix and calibration on validation data, and where the model looks in a few examples."""
        assert isinstance(model, Classifier)
        logits, rows = self.reader.valid(model)
        pictures = classes.pictures(logits, rows, self.labels, "Validation data")
        for example in self.reader.some(PICTURES):
            try:
                record = self.look(model, example.input)
            except CallError:  # a model without attention has nothing to show
                return pictures
            right = self._joined(example.labels)
            pictures.append(classes.looked(record, self.reader.shown(example.input), right))
        return pictures

    # ----------------------------------------------------------------------------------------------------- the folder
    def save(self, folder: Path) -> None:
        self.labels.save(folder / "labels.json")
        self.reader.save(folder)

    def restore(self, folder: Path) -> None:
        self.reader.restore(folder)

    # ----------------------------------------------------------------------------------------------------- prediction
    def inputs(self, words: Sequence[str]) -> list[Any]:
        return self.reader.inputs(words)

    def predict(
        self, model: nn.Module, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        """The most probable label, or all that reach the threshold; `n_best` gives the runners-up."""
        assert isinstance(model, Classifier)
        if prefix:
            raise CallError(f"prefix={prefix!r}: a label does not begin with a text")
        if not inputs:
            return []
        table = classes.probabilities(self.reader.logits(model, inputs), self.labels)
        return [self._prediction(one, row) for one, row in zip(inputs, table, strict=True)]

    def _prediction(self, one: Any, probability: Float[np.ndarray, " N"]) -> Classified:
        how, names = self.recipe.decoding, self.labels.names
        order = np.argsort(-probability, kind="stable")
        if self.labels.several:
            given = [int(number) for number in order if probability[number] >= how.threshold]
            chance = float(np.where(probability >= how.threshold, probability, 1 - probability).prod())
            outputs = [Output(self._joined([names[number] for number in given]), chance, _log(chance))]
        else:
            given = [int(order[0])]
            outputs = [
                Output(names[number], float(probability[number]), _log(float(probability[number])))
                for number in order[: how.n_best]
            ]
        return Classified(
            self.reader.shown(one), outputs, labels=[names[number] for number in given],
            probabilities={names[number]: float(probability[number]) for number in order},
        )  # fmt: skip

    def score(self, model: nn.Module, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Prediction]:
        """log p(label | input) of given labels."""
        assert isinstance(model, Classifier)
        wanted = [self.labels.require(label) for label in outputs]
        table = classes.log_probabilities(self.reader.logits(model, inputs), self.labels)
        return [
            Prediction(self.reader.shown(one), [Output(label, float(row[number]), float(row[number]))])
            for one, label, number, row in zip(inputs, outputs, wanted, table, strict=True)
        ]

    # ----------------------------------------------------------------------------------------------------- evaluation
    def evaluate(self, model: nn.Module, *, alignments: bool = False) -> Scores:
        """Accuracy, F1 of each class, confusion, calibration on the test data."""
        assert isinstance(model, Classifier)
        if alignments:
            raise CallError("labels are not aligned to words: leave alignments out")
        examples, skipped = self.reader.test()
        logits = self.reader.logits(model, [example.input for example in examples])
        rows = [tuple(self.labels.classes(example.labels)) for example in examples]
        scores = classes.scores(logits, rows, self.labels, self.recipe.decoding.threshold)
        unknown = sum(UNKNOWN in row for row in rows)
        if unknown:
            scores.notes["unknown labels"] = f"{unknown} examples have a label that training did not: all wrong"
        if skipped:
            scores.notes["skipped"] = skipped
        return scores

    def look(self, model: nn.Module, text: Any, wish: Wish = PLAIN) -> AttentionRecord:
        """Where the model looks when it gives its label, or the given one."""
        assert isinstance(model, Classifier)
        if wish.gold is not None:
            raise CallError("labels are not aligned to words: leave gold out")
        logits = self.reader.logits(model, [text])
        table = classes.probabilities(logits, self.labels)[0]
        order = [int(number) for number in np.argsort(-table, kind="stable")]
        chosen = [self.labels.require(wish.output)] if wish.output else order[: self.recipe.decoding.n_best]
        records = [
            replace(
                self.reader.look(model, text, number, method=wish.method, layer=wish.layer, head=wish.head),
                score=float(table[number]), model=wish.name,
            )
            for number in chosen
        ]  # fmt: skip
        return replace(records[0], beams=tuple(replace(one, evidence=()) for one in records[1:]))

    def _joined(self, labels: Sequence[str]) -> str:
        return self.labels.writing.joined(labels)


def _log(probability: float) -> float:
    return float(np.log(max(probability, np.finfo(np.float64).tiny)))
