"""Classification with one label or several: the encoder output is pooled into one vector, and a linear layer scores
the classes.

    p(c | x) = softmax(W pool(Memory(x)) + b)_c          with several labels: σ(…)_c

Labels, scores, calibration, predictions and looking are the same for every input.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from regard.data.examples import Example, Examples
from regard.data.labels import UNKNOWN, LabelFormat, Labels
from regard.data.vocabulary import OURS
from regard.encoders.image import by_class_token
from regard.inputs.base import Input
from regard.inputs.image.settings import PictureSettings
from regard.inputs.text.settings import PretrainedTextSettings, RecurrentTextSettings, TransformerTextSettings
from regard.layers.loss import class_loss
from regard.layers.pooling import attends
from regard.look.axis import whole
from regard.look.case import ExplainTarget
from regard.look.placing import pooled_placement
from regard.look.svg import heat_map, reliability_diagram
from regard.metrics.classes import Bin, class_scores, confusion, exact, macro_f1, micro_f1, one_hot, reliability
from regard.models.build import build_pooling, text_encoder
from regard.models.classifier import Classifier
from regard.pretrained import encoder as pretrained_encoder
from regard.tasks.base import QUICK, TYPICAL, ModelPlan, OutputRef
from regard.tasks.batched import device_of, rows_of
from regard.tasks.final_score import (
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
from regard.tasks.labels.answers import candidate, log_probabilities, looked_at, output_view, predict_labels
from regard.tasks.labels.settings import ClassifyRecipe, LabeledTextSettings, PretrainedClassifierSettings
from regard.tasks.labels.vocabulary import ClassOutput
from regard.tasks.result import (
    Candidate,
    LookOptions,
    Measure,
    Prediction,
    ReportPicture,
    Scores,
    Tally,
    mean_of_windows,
)

# Predictions, scores and figures from the logits of a classifier, for any input.

Rows = Sequence[Sequence[int]]  # the classes of each example, −1 for those not in the training data
PERCENT = ("accuracy", "macro_f1", "micro_f1", "calibration_error")
CONFUSION = "confusion (rows: right, columns: predicted)"
WIDEST = 40  # maximum classes of a drawn confusion matrix


def probabilities(logits: Float[np.ndarray, "M N"], labels: Labels) -> Float[np.ndarray, "M N"]:
    return np.exp(log_probabilities(logits, labels))


def answers(logits: Float[np.ndarray, "M N"], labels: Labels, threshold: float) -> Bool[np.ndarray, "M N"]:
    """Return which classes are predicted: the most probable one, or all that reach the threshold."""
    if labels.several:
        return probabilities(logits, labels) >= threshold
    return one_hot(logits.argmax(1), len(labels))


def table_of(rows: Rows, labels: Labels) -> Bool[np.ndarray, "M N"]:
    """Return which classes are correct; a label not in the training data matches none of them."""
    table = np.zeros((len(rows), len(labels)), bool)
    for number, row in enumerate(rows):
        table[number, [one for one in row if one != UNKNOWN]] = True
    return table


def quick(logits: Float[np.ndarray, "M N"], rows: Rows, labels: Labels, threshold: float) -> dict[str, float]:
    """Return the scores that are logged in training; the loss has no class weights and no smoothing."""
    said, gold = answers(logits, labels, threshold), table_of(rows, labels)
    loss = class_loss(torch.from_numpy(logits), torch.from_numpy(labels.target(rows)))
    found = {"loss": float(loss.total) / max(1, int(loss.count))}
    found |= {
        "accuracy": _accuracy(rows, gold, said),
        "macro_f1": macro_f1(class_scores(gold, said, labels.names)),
    }
    return {**found, "micro_f1": micro_f1(gold, said)} if labels.several else found


def label_scores(logits: Float[np.ndarray, "M N"], rows: Rows, labels: Labels, threshold: float) -> Scores:
    """Return all scores that `evaluate` reports."""
    said, gold = answers(logits, labels, threshold), table_of(rows, labels)
    error, bins = _calibration(logits, rows, labels)
    values = {**quick(logits, rows, labels, threshold), "calibration_error": error, "examples": float(len(rows))}
    details = {
        "by class": [score.as_row() for score in class_scores(gold, said, labels.names)],
        "calibration, in percent": [one.as_row() for one in bins],
    }
    if not labels.several:
        details[CONFUSION] = confusion_rows(confusion(_first(rows), logits.argmax(1), len(labels)), labels.names)
    return Scores(values, {}, details, pictures(logits, rows, labels, "Test data"), percent=PERCENT)


def tally(predicted: Bool[np.ndarray, "M N"], rows: Rows, labels: Labels, metric: str) -> Tally:
    """Return what each example adds to a score of `quick`."""
    gold = table_of(rows, labels)
    if metric == "macro_f1":

        def value(table: Any) -> float:
            right, given = np.split(table.astype(bool), 2, axis=1)
            return macro_f1(class_scores(right, given, labels.names))

        return Tally(np.concatenate([gold, predicted], axis=1), value)
    if metric == "micro_f1":
        return Tally.of_shares(
            np.stack([2 * (gold & predicted).sum(1), gold.sum(1) + predicted.sum(1)], 1), percent=True
        )
    known = np.array([UNKNOWN not in row for row in rows], bool)
    return Tally.of_hits(known & (gold == predicted).all(1))


def pictures(logits: Float[np.ndarray, "M N"], rows: Rows, labels: Labels, data: str) -> list[ReportPicture]:
    """Return the confusion matrix (one label per example) and the reliability of probabilities; `data` names the
    data.
    """
    found = []
    if not labels.several:
        matrix = confusion(_first(rows), logits.argmax(1), len(labels))
        found += confusion_picture(matrix, labels.names, f"{data}. Rows: the right class")
    error, bins = _calibration(logits, rows, labels)
    note = f"{data}. Bars: how often right; line: how sure. Expected calibration error: {error:.1f} percent."
    return [*found, ReportPicture("Calibration", reliability_diagram(bins), note)]


def confusion_rows(matrix: Int[np.ndarray, "N N"], names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"": name, **dict(zip(names, row.tolist(), strict=True))} for name, row in zip(names, matrix, strict=True)]


def confusion_picture(matrix: Int[np.ndarray, "N N"], names: Sequence[str], about: str) -> list[ReportPicture]:
    """Return the confusion matrix as a figure if it is not too wide; `about` names the data and the rows."""
    if len(names) > WIDEST:
        return []
    counts = matrix.sum(1)
    rights = [f"{name} ({count})" for name, count in zip(names, counts, strict=True)]
    note = f"{about} (and how many there are); columns: the predicted class."
    share = matrix / np.maximum(1, counts[:, None])
    return [ReportPicture("Confusion", heat_map(share, rights, names, "Confusion"), note)]


def _accuracy(rows: Rows, gold: Bool[np.ndarray, "M N"], predicted: Bool[np.ndarray, "M N"]) -> float:
    """Return the accuracy; examples with an unknown label count as wrong."""
    known = np.array([UNKNOWN not in row for row in rows], bool)
    return exact(gold[known], predicted[known]) * float(known.mean()) if known.any() else 0.0


def _first(rows: Rows) -> Int[np.ndarray, " M"]:
    return np.array([row[0] for row in rows], np.int64)


def _calibration(logits: Float[np.ndarray, "M N"], rows: Rows, labels: Labels) -> tuple[float, list[Bin]]:
    table, gold = probabilities(logits, labels), table_of(rows, labels)
    if labels.several:
        return reliability(table.reshape(-1), gold.reshape(-1))
    best = table.argmax(1)
    every = np.arange(len(table))
    return reliability(table[every, best], gold[every, best])


# Training of a classifier: the model, the targets of batches, and the scores.

Logits = Float[np.ndarray, "M N"]


class LabelsTraining(ClassOutput[ClassifyRecipe, Input, Classifier]):
    gives: ClassVar[str] = "a label"
    unit: ClassVar[str] = "labels"

    @property
    def writing(self) -> LabelFormat:
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

    def planned(self) -> ModelPlan | None:
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
        return ModelPlan(model, min(TYPICAL, data.max_length), 1, note)

    def validate(self, model: Classifier, valid: Examples) -> dict[str, float]:
        return self.quick(model, valid)

    def quick(self, model: Classifier, valid: Examples) -> dict[str, float]:
        """Return scores of all validation examples, in one pass."""
        return quick(*self._read_logits(model, valid), self.labels, self.recipe.decoding.threshold)

    @torch.inference_mode()
    def _read_logits(self, model: Classifier, examples: Examples) -> tuple[Logits, list[tuple[int, ...]]]:
        """Return the logits and classes of all examples of a split."""
        table = np.empty((len(examples), len(self.labels)), np.float32)
        for rows, batch in self.scored_batches(examples).in_order():
            table[rows] = model.logits(batch.source.to(device_of(model))).float().cpu().numpy()
        if long := examples.overlong():
            rows, inputs = zip(*long, strict=True)
            table[list(rows)] = self.logits(model, inputs)
        return table, [self.labels.decode(examples.target(row)) for row in range(len(examples))]

    def sample_examples(self, valid: Examples, most: int) -> list[Example]:
        """Return examples of each label in turn."""
        by_label: dict[tuple[str, ...], list[Example]] = {}
        for example in valid.examples(QUICK):
            by_label.setdefault(example.texts, []).append(example)
        middle = [some[len(some) // 2 :] + some[: len(some) // 2] for some in by_label.values()]
        turns = (one for turn in range(most) for some in middle for one in some[turn : turn + 1])
        return list(islice(turns, most))

    def pictures(self, model: Classifier, valid: Examples) -> list[ReportPicture]:
        return pictures(*self._read_logits(model, valid), self.labels, "Validation data")

    def test_scores(self, model: Classifier, examples: Sequence[Example], alignments: bool) -> Scores:
        """Return accuracy, F1 of each class, confusion and calibration."""
        logits = self.logits(model, [example.input for example in examples])
        rows = self._classes(examples)
        scores = label_scores(logits, rows, self.labels, self.recipe.decoding.threshold)
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
        return answers(logits, self.labels, self.recipe.decoding.threshold)

    def tally(self, answers: Bool[np.ndarray, "M N"], examples: Sequence[Example]) -> Tally:
        return tally(answers, self._classes(examples), self.labels, self.measure().name)

    def baselines(self, train: Examples, examples: Sequence[Example]) -> dict[str, Bool[np.ndarray, "M N"]]:
        """Return the baselines: the most frequent label; for texts, TF-IDF and logistic regression; for other inputs,
        the nearest mean.
        """
        is_text = not isinstance(self.input.plain(examples[0].input), np.ndarray)
        learned = train.sample(ROWS if is_text else FEW_ROWS)
        rows = self._classes(learned)
        right = table_of(rows, self.labels)
        most = table_of([most_frequent(rows)], self.labels)
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


class LabelsOutput(LabelsTraining):
    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: Classifier, inputs: Sequence[Any]) -> list[Prediction]:
        """Predict the most probable label, or all that reach the threshold; with `n_best`, also the next ones."""
        names, how = [self.input.name(one) for one in inputs], self.recipe.decoding
        table = log_probabilities(self.logits(model, inputs), self.labels)
        return [predict_labels(name, row, self.labels, how) for name, row in zip(names, table, strict=True)]

    def score_outputs(self, model: Classifier, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Candidate]:
        """Return log p(label | input) of given labels."""
        wanted = [self.labels.require(label) for label in outputs]
        table = log_probabilities(self.logits(model, inputs), self.labels)
        return [candidate(number, row, self.labels) for number, row in zip(wanted, table, strict=True)]

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Classifier, one: Any, options: LookOptions) -> list[OutputRef]:
        """Return the given label, or the most probable ones. With several labels per example, return all predicted
        ones.
        """
        item, budget = self.item_of(one), self.recipe.decoding.batch_tokens  # of a long text, the first window
        logits = torch.stack(rows_of(self.input, model, [item], model.logits, budget)).numpy()
        (row,) = log_probabilities(logits, self.labels)
        chosen, shown = looked_at(row, self.labels, self.recipe.decoding, options.output), output_view(row, self.labels)
        return [OutputRef(number, self.labels.names[number], float(np.exp(row[number])), shown) for number in chosen]

    def case(self, model: Classifier, one: Any, ref: OutputRef) -> ExplainTarget:
        """Return the case with the label as its one row; its columns depend on how the memory is pooled."""
        item, first = self.item_of(one), by_class_token(model.encoder, model.pooling)
        item = item if attends(model.pooling) else self.input.inside(item)
        name = ref.text
        axes = {"target": whole(name), "source": self.input.axis(item)}

        def steps(source: Any) -> Tensor:
            logits = model.logits(source).float()
            chance = F.logsigmoid(logits) if self.labels.several else logits.log_softmax(-1)
            other = 0.0 if ref.instead is None else chance[:, [ref.instead]]
            return chance[:, [ref.target]] - other

        return self.asked(model, item, steps, axes, place=pooled_placement(first))
