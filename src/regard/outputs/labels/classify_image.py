"""Pictures for classification: stores, batches, an encoder, and where it looks."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.cost.units import count
from regard.data.check_report import PERCENTILES, CheckReport, Finding, SideFigures, SplitFigures
from regard.data.pairs import Columns
from regard.data.tables import Role
from regard.encoders.image_input import PictureEncoder
from regard.errors import CallError, RegardError
from regard.inputs.image.batches import Pixels, Sight
from regard.inputs.image.check import picture_findings
from regard.inputs.image.labeled import PictureBatches, classes_of
from regard.inputs.image.pictures import build_body, colors, frozen_sights, name_of, read_inputs, regions_of
from regard.inputs.image.prepare import form_of, picture_columns, prepare_pictures, sources_of
from regard.inputs.image.sources import PictureSource
from regard.inputs.image.store import PictureStore
from regard.layers.pooling import Pooling
from regard.look import AttentionRecord
from regard.look.of_model import evaluating
from regard.look.records import Head
from regard.models.classifier import Classifier
from regard.models.picture_classifier import PictureClassifier
from regard.outputs.labels import classify_image_looking
from regard.outputs.labels.classify import Example
from regard.outputs.labels.classify_build import class_weights
from regard.outputs.labels.classify_image_settings import EfficientNetClassifierSettings, ImageSettings
from regard.outputs.labels.classify_settings import ClassifyRecipe
from regard.outputs.labels.labels import UNKNOWN, Labels, Writing

FEW = 10  # training pictures of a class that are hardly enough


class ImageReader:
    """Implements `jobs.classify.Reader`."""

    def __init__(self, recipe: ClassifyRecipe, labels: Labels | None = None) -> None:
        assert isinstance(recipe.data, ImageSettings)
        self.recipe, self.data = recipe, recipe.data
        self._labels = labels
        self._stores: dict[Role, PictureStore] = {}
        self._sights: dict[Role, Sight] = {}

    def under(self, recipe: ClassifyRecipe) -> "ImageReader":
        return ImageReader(recipe, self._labels)

    # ------------------------------------------------------------------------------------------------------- training
    def prepare(self, cache: Path) -> None:
        cache = Path(self.data.cache).expanduser() if self.data.cache else cache
        sources = self._sources()
        sources.pop("test", None)  # read when it is asked for
        self._stores = prepare_pictures(self.data, sources, cache, max_bad=self.data.max_bad)
        self._labels = self._labels or self._learned(self._stores["train"])
        for role, store in self._stores.items():
            self._sights[role] = Pixels(
                store, self.data.augment if role == "train" else None, self.recipe.training.seed
            )
        model = self.recipe.model
        if isinstance(model, EfficientNetClassifierSettings) and model.frozen:
            encoder = self._encoder(pretrained=True)
            seed = self.recipe.training.seed
            self._sights |= frozen_sights(self._stores, self.data, model, encoder, cache, seed)

    def _sources(self) -> dict[Role, PictureSource]:
        data = self.data
        columns = picture_columns(data.image, data.label, data.header, "label")
        columns = Columns(columns.source, columns.target, columns.header, columns.sides, Writing.of(data).text)
        return sources_of(
            data, {"train": data.train, "valid": data.valid, "test": data.test}, columns, data.format,
            valid_share=data.valid_share, valid_most=data.valid_most,
        )  # fmt: skip

    def _learned(self, train: PictureStore) -> Labels:
        writing = Writing.of(self.data)
        labels = Labels.learned((str(writing.text(entry.texts[0])) for entry in train.entries), writing)
        if len(labels) < (1 if labels.several else 2):
            found = ", ".join(map(repr, labels.names)) or "none"
            raise RegardError(
                f"data.train={self.data.train}: a classifier needs two classes at least; there is {found}"
            )
        return labels

    def check(self, cache: Path) -> CheckReport:
        data = self.data
        cache = Path(data.cache).expanduser() if data.cache else cache
        stores = prepare_pictures(data, self._sources(), cache, max_bad=data.max_bad, strict=False)
        labels = self._labels or self._learned(stores["train"])
        regions = regions_of(self.recipe.model, data)
        findings = picture_findings(stores, data.max_bad)
        splits: dict[Role, SplitFigures] = {}
        for role, store in stores.items():
            rows = classes_of(store, labels)
            image = SideFigures(regions * len(store), 0.0, dict.fromkeys(PERCENTILES, regions))
            unknown = sum(UNKNOWN in row for row in rows)
            label = SideFigures(sum(map(len, rows)), unknown / max(1, len(rows)), dict.fromkeys(PERCENTILES, 1))
            splits[role] = SplitFigures(store.name, len(store), store.read.bad, image, label, ("image", "label"))
            findings += _label_findings(role, store, rows, labels)
        with torch.device("meta"):
            model = self._model(len(labels), None, pretrained=False)
        estimates = {
            "parameters": count(sum(p.numel() for p in model.parameters())),
            "regions of a picture": f"{regions}",
            "pictures in a batch": f"{max(1, self.recipe.training.max_tokens // regions)}",
        }
        return CheckReport(splits, {"label": len(labels)}, findings, estimates)

    def build(self) -> Classifier:
        weights = None
        train = self._stores.get("train")
        if train is not None:
            rows = [number for row in classes_of(train, self.labels) for number in row if number != UNKNOWN]
            counts = np.bincount(np.array(rows, np.int64), minlength=len(self.labels))
            weights = class_weights(self.recipe.model.class_weights, self.labels, counts, len(train))
        return self._model(len(self.labels), weights, pretrained=train is not None)

    def _model(self, classes: int, weights: Tensor | None, *, pretrained: bool) -> PictureClassifier:
        s, encoder = self.recipe.model, self._encoder(pretrained=pretrained)
        return PictureClassifier(
            encoder, Pooling("last"), encoder.summary_width, classes,
            dropout=s.head_dropout, label_smoothing=s.label_smoothing, class_weights=weights,
            mixed=self.data.augment.mixup > 0 and self.data.separator is None,
        )  # fmt: skip

    def _encoder(self, *, pretrained: bool) -> PictureEncoder:
        s = self.recipe.model
        return PictureEncoder(
            build_body(s, self.data, pretrained=pretrained),
            colors=colors(s, self.data, self._stores.get("train")),
            frozen=isinstance(s, EfficientNetClassifierSettings) and s.frozen,
        )

    def batches(self) -> PictureBatches:
        return self._batches("train")

    def _batches(self, role: Role) -> PictureBatches:
        training = self.recipe.training
        return PictureBatches(
            self._stores[role], self.labels, self._sights[role], regions_of(self.recipe.model, self.data),
            training.max_tokens, augment=self.data.augment if role == "train" else None, seed=training.seed,
        )  # fmt: skip

    def fingerprint(self) -> str:
        return self._stores["train"].digest()

    def valid(self, model: Classifier) -> tuple[Float[np.ndarray, "M N"], list[tuple[int, ...]]]:
        store, sight = self._stores["valid"], self._sights["valid"]
        rows = np.arange(len(store))
        found = [
            self._logits(model, sight(some, some, 0))
            for some in np.split(rows, rows[self._at_once() :: self._at_once()])
        ]
        return np.concatenate(found), classes_of(store, self.labels)

    def some(self, most: int) -> list[Example]:
        """The first validation pictures of each label in turn."""
        by_label: dict[str, list[int]] = {}
        store = self._stores["valid"]
        for row, entry in enumerate(store.entries):
            by_label.setdefault(entry.texts[0], []).append(row)
        turns = (row for turn in range(most) for rows in by_label.values() for row in rows[turn : turn + 1])
        return [self._example(store, row) for row in islice(turns, most)]

    def _example(self, store: PictureStore, row: int) -> Example:
        writing = self.labels.writing
        labels = writing.labels(str(writing.text(store.entries[row].texts[0])))
        return Example(np.ascontiguousarray(store.pixels[row].transpose(1, 2, 0)), labels)

    # ----------------------------------------------------------------------------------------------------- the folder
    def save(self, folder: Path) -> None:
        """The labels are all there is, and `Classify` keeps them."""

    def restore(self, folder: Path) -> None:
        self._labels = Labels.load(folder / "labels.json")

    # ----------------------------------------------------------------------------------------------------- prediction
    def inputs(self, words: Sequence[str]) -> list[str]:
        """Paths of pictures, members of a tar (images.tar/a.jpg), or rows of a corpus (corpus:digits#7)."""
        return [word for word in words if word.strip()]

    def shown(self, one: Any) -> str:
        return name_of(one)

    def test(self) -> tuple[list[Example], str]:
        source = self._sources().get("test")
        if source is None:
            raise CallError("the recipe has no test data: give data.test=FILE")
        with TemporaryDirectory(prefix="regard-pictures-") as folder:
            cache = Path(self.data.cache).expanduser() if self.data.cache else Path(folder)
            store = prepare_pictures(self.data, {"test": source}, cache, max_bad=self.data.max_bad)["test"]
            examples = [self._example(store, row) for row in range(len(store))]
        lost = store.read.bad
        return examples, f"{lost} of {source.where} that could not be used" if lost else ""

    def logits(self, model: Classifier, inputs: Sequence[Any]) -> Float[np.ndarray, "M N"]:
        form = form_of(self.data)
        groups = (inputs[start : start + self._at_once()] for start in range(0, len(inputs), self._at_once()))
        return np.concatenate([self._logits(model, read_inputs(group, form)) for group in groups])

    @torch.inference_mode()
    def _logits(self, model: Classifier, inputs: Tensor) -> Float[np.ndarray, "M N"]:
        with evaluating(model):
            return model.logits(inputs.to(next(model.parameters()).device)).float().cpu().numpy()

    def _at_once(self) -> int:
        return max(1, self.recipe.decoding.batch_tokens // regions_of(self.recipe.model, self.data))

    def look(
        self, model: Classifier, one: Any, label: int, *, method: str, layer: int | None, head: Head
    ) -> AttentionRecord:
        pixels = read_inputs([one], form_of(self.data))[0]
        return classify_image_looking.look(
            model, pixels, label, self.labels, name_of(one), method=method, layer=layer, head=head
        )

    @property
    def labels(self) -> Labels:
        assert self._labels is not None, "prepare or restore comes first"
        return self._labels


def _label_findings(role: Role, store: PictureStore, rows: list[tuple[int, ...]], labels: Labels) -> list[Finding]:
    found = []
    unknown = [number for number, row in enumerate(rows) if UNKNOWN in row]
    if unknown:
        names = ", ".join(store.entries[number].name for number in unknown[:3])
        what = f"{len(unknown):,} pictures have a label that training does not have"
        found.append(Finding("warning", role, what, len(unknown), names, [], "correct the label, or train on it"))
    if role == "train":
        counts = np.bincount([number for row in rows for number in row if number >= 0], minlength=len(labels))
        few = [f"{name} ({number})" for name, number in zip(labels.names, counts, strict=True) if number < FEW]
        if few:
            what = f"{len(few)} of {len(labels)} classes have fewer than {FEW} pictures: {', '.join(few[:5])}"
            found.append(Finding("warning", role, what, len(few), store.name, [], "bring more of them"))
    return found
