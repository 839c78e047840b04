"""Training of a classifier: the model, the targets of batches, and the scores."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example, Examples
from regard.data.label_writing import Writing
from regard.data.labels import UNKNOWN
from regard.data.special_ids import OURS
from regard.inputs.base import Input
from regard.inputs.image.settings import PictureSettings
from regard.inputs.text.body_settings import PretrainedTextSettings, RecurrentTextSettings, TransformerTextSettings
from regard.metrics.classes import one_hot
from regard.models.classifier import Classifier
from regard.outputs.base import QUICK, TYPICAL, Planned
from regard.outputs.baselines import (
    FEW_ROWS,
    MAJORITY,
    NEAREST_MEAN,
    ROWS,
    TFIDF,
    has_tfidf,
    labels_by_words,
    most_frequent,
    nearest_means,
)
from regard.outputs.batched import device_of, rows_of
from regard.outputs.groups import mean_of_windows
from regard.outputs.labels import classes
from regard.outputs.labels.settings import ClassifyRecipe, LabeledTextSettings, PretrainedClassifierSettings
from regard.outputs.labels.vocabulary import ClassOutput
from regard.outputs.result import Measure, Picture, Scores, Tally
from regard.parts import build_pooling, text_encoder
from regard.pretrained import encoder as pretrained_encoder

Logits = Float[np.ndarray, "M N"]


class LabelsTraining(ClassOutput[ClassifyRecipe, Input, Classifier]):
    gives: ClassVar[str] = "a label"
    unit: ClassVar[str] = "labels"

    @property
    def writing(self) -> Writing:
        return self.recipe.data.writing

    @property
    def counted(self) -> str:
        return self.recipe.data.counted

    @property
    def fewest(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 2 if self.writing.separator is None else 1

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        """Return one class a row, or rows of zeros and ones; −1 for targets that are not counted."""
        if targets:
            return torch.from_numpy(self.labels.target([self.labels.decode(target) for target in targets]))
        return torch.full((1, len(self.labels)), -1.0) if self.labels.several else torch.tensor([UNKNOWN])

    def build(self) -> Classifier:
        s, data, encoder = self.recipe.model, self.recipe.data, self.input.encoder()
        width = int(encoder.memory_width)  # pyright: ignore[reportArgumentType]
        return Classifier(
            encoder, self.input.pooling(width), width, len(self.labels),
            dropout=s.head_dropout, label_smoothing=s.label_smoothing, class_weights=self.class_weights(),
            noise=self.input.noise(), frozen=self.input.frozen,
            layer_decay=s.layer_decay if isinstance(s, PretrainedClassifierSettings) else 1.0,
            mixup=data.augment.mixup if isinstance(data, PictureSettings) else 0.0,
        )  # fmt: skip

    def planned(self) -> Planned | None:
        """Plan with two classes; a pretrained encoder has its own sizes and vocabulary."""
        s, data = self.recipe.model, self.recipe.data
        if not isinstance(s, RecurrentTextSettings | TransformerTextSettings | PretrainedTextSettings):
            return None
        assert isinstance(data, LabeledTextSettings)
        sizes, vocabulary, pad = s, data.tokenizer.size, OURS.pad
        if isinstance(s, PretrainedTextSettings):
            found = pretrained_encoder(s.path)
            sizes, vocabulary, pad = found.settings, found.tokenizer.size, found.tokenizer.specials.pad
        own = isinstance(s, RecurrentTextSettings) and s.self_attention
        with torch.device("meta"):
            body = text_encoder(sizes, vocabulary, pad=pad or 0)
            width = int(body.memory_width)  # pyright: ignore[reportArgumentType]
            pooling = build_pooling(s.pooling, s.score, width, self_attention=own)
            model = Classifier(body, pooling, width, 2)
        note = "the vocabulary is taken as full (data.tokenizer.size), and two classes are counted"
        return Planned(model, min(TYPICAL, data.max_length), 1, note)

    def validate(self, model: Classifier, valid: Examples) -> dict[str, float]:
        return self.quick(model, valid)

    def quick(self, model: Classifier, valid: Examples) -> dict[str, float]:
        """Return scores of all validation examples, in one pass."""
        return classes.quick(*self._stored(model, valid), self.labels, self.recipe.decoding.threshold)

    @torch.inference_mode()
    def _stored(self, model: Classifier, examples: Examples) -> tuple[Logits, list[tuple[int, ...]]]:
        """Return the logits and classes of all examples of a split."""
        table = np.empty((len(examples), len(self.labels)), np.float32)
        for rows, batch in self.scored_batches(examples).in_order():
            table[rows] = model.logits(batch.source.to(device_of(model))).float().cpu().numpy()
        if long := examples.overlong():
            rows, inputs = zip(*long, strict=True)
            table[list(rows)] = self.logits(model, inputs)
        return table, [self.labels.decode(examples.target(row)) for row in range(len(examples))]

    def some(self, valid: Examples, most: int) -> list[Example]:
        """Return examples of each label in turn."""
        by_label: dict[tuple[str, ...], list[Example]] = {}
        for example in valid.examples(QUICK):
            by_label.setdefault(example.texts, []).append(example)
        middle = [some[len(some) // 2 :] + some[: len(some) // 2] for some in by_label.values()]
        turns = (one for turn in range(most) for some in middle for one in some[turn : turn + 1])
        return list(islice(turns, most))

    def pictures(self, model: Classifier, valid: Examples) -> list[Picture]:
        return classes.pictures(*self._stored(model, valid), self.labels, "Validation data")

    def test_scores(self, model: Classifier, examples: Sequence[Example], alignments: bool) -> Scores:
        """Return accuracy, F1 of each class, confusion and calibration."""
        logits = self.logits(model, [example.input for example in examples])
        rows = self._classes(examples)
        scores = classes.scores(logits, rows, self.labels, self.recipe.decoding.threshold)
        unknown = sum(UNKNOWN in row for row in rows)
        if unknown:
            scores.notes["unknown labels"] = (
                f"{unknown} examples have a label that is not in the training data; they count as wrong"
            )
        return scores

    def measure(self) -> Measure:
        """Return accuracy; F1 if training uses F1 or an example may have several labels."""
        name = "micro_f1" if self.several else self.recipe.training.metric
        return Measure(name) if name in ("macro_f1", "micro_f1") else Measure("accuracy", of_hits=True)

    def answers(self, model: Classifier, examples: Sequence[Example]) -> Bool[np.ndarray, "M N"]:
        logits = self.logits(model, [example.input for example in examples])
        return classes.answers(logits, self.labels, self.recipe.decoding.threshold)

    def tally(self, answers: Bool[np.ndarray, "M N"], examples: Sequence[Example]) -> Tally:
        return classes.tally(answers, self._classes(examples), self.labels, self.measure().name)

    def baselines(self, train: Examples, examples: Sequence[Example]) -> dict[str, Bool[np.ndarray, "M N"]]:
        """Return the baselines: the most frequent label; for texts, TF-IDF and logistic regression; for other inputs,
        the nearest mean.
        """
        is_text = not isinstance(self.input.plain(examples[0].input), np.ndarray)
        learned = train.sample(ROWS if is_text else FEW_ROWS)
        rows = self._classes(learned)
        right = classes.table_of(rows, self.labels)
        most = classes.table_of([most_frequent(rows)], self.labels)
        found = {MAJORITY: np.repeat(most, len(examples), axis=0)}
        ours, theirs = ([self.input.plain(one.input) for one in some] for some in (learned, examples))
        if is_text and has_tfidf():
            said = labels_by_words(ours, right, theirs, several=self.several)
            found |= {} if said is None else {TFIDF: said}
        elif not is_text and not self.several:
            nearest = nearest_means(np.stack(ours), right.argmax(1), np.stack(theirs))
            found[NEAREST_MEAN] = one_hot(nearest, len(self.labels))
        return found

    def _classes(self, examples: Sequence[Example]) -> list[tuple[int, ...]]:
        return [tuple(self.labels.classes(self.labels.writing.labels(one.texts[0]))) for one in examples]

    def logits(self, model: Classifier, inputs: Sequence[Any]) -> Logits:
        def ask(items: list[Any]) -> list[Tensor]:
            return rows_of(self.input, model, items, model.logits, self.recipe.decoding.batch_tokens)

        found = mean_of_windows(self.input, inputs, ask)
        return torch.stack(found).numpy() if found else np.empty((0, len(self.labels)), np.float32)
