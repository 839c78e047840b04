"""Texts for classification: token ids, batches of like length, an encoder, and where it looks."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.cost.hardware import here
from regard.cost.passes import model_cost
from regard.data.check_report import CheckReport
from regard.data.pairs import Pair
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.errors import CallError, RegardError
from regard.inputs.text.labeled import labeled_source
from regard.inputs.text.labeled_batches import Frame, LabeledBatches
from regard.inputs.text.labeled_check import check_labeled, class_counts
from regard.inputs.text.labeled_prepare import PreparedTexts, prepare_labeled
from regard.look import AttentionRecord
from regard.look.of_model import evaluating
from regard.look.records import Head
from regard.models.classifier import Classifier
from regard.outputs.labels import classify_looking
from regard.outputs.labels.classify import Example
from regard.outputs.labels.classify_build import TextModel, build_text_classifier, class_weights
from regard.outputs.labels.classify_settings import (
    ClassifyRecipe,
    PretrainedClassifierSettings,
    RecurrentClassifierSettings,
    TextSettings,
)  # fmt: skip
from regard.outputs.labels.labels import Labels
from regard.outputs.text.scoring import cost_lines, texts
from regard.outputs.text.search import in_groups
from regard.pretrained import encoder, keep_settings, kept_settings
from regard.settings.encoder import EncoderSettings


class TextReader:
    """Implements `jobs.classify.Reader`."""

    def __init__(
        self,
        recipe: ClassifyRecipe,
        tokenizer: Tokenizer | None = None,
        labels: Labels | None = None,
        encoder_settings: EncoderSettings | None = None,
    ) -> None:
        assert isinstance(recipe.data, TextSettings)
        self.recipe, self.data = recipe, recipe.data
        self._tokenizer, self._labels, self._settings = tokenizer, labels, encoder_settings
        self._first: dict[str, Tensor] | None = None  # weights that training begins with
        self._prepared: PreparedTexts | None = None

    def under(self, recipe: ClassifyRecipe) -> "TextReader":
        return TextReader(recipe, self._tokenizer, self._labels, self._settings)

    # ------------------------------------------------------------------------------------------------------- training
    def prepare(self, cache: Path) -> None:
        self._prepared = self._read(cache, strict=True)
        self._tokenizer, self._labels = self._prepared.tokenizer, self._prepared.labels

    def check(self, cache: Path) -> CheckReport:
        """What is wrong with the data, and what the model will cost on it."""
        prepared = self._read(cache, strict=False)
        with torch.device("meta"):
            model = self._model(prepared.tokenizer, prepared.labels)
        train, budget = prepared.stores["train"], self.recipe.training.max_tokens
        length = max(1, round(len(train.source_ids) / max(1, len(train))))
        cost = model_cost(model, batch=max(1, budget // length), length=length, hardware=here(0.3))
        return replace(check_labeled(self.data, prepared), estimates=cost_lines(cost, len(train.source_ids)))

    def _read(self, cache: Path, *, strict: bool) -> PreparedTexts:
        model = self.recipe.model
        if isinstance(model, PretrainedClassifierSettings) and self._tokenizer is None:
            found = encoder(model.path, dropout=model.dropout)
            self._settings, self._tokenizer, self._first = found.settings, found.tokenizer, found.weights
        return prepare_labeled(self.data, cache, tokenizer=self._tokenizer, labels=self._labels, strict=strict)

    def build(self) -> Classifier:
        weights = None
        if self._prepared is not None:
            train = self._prepared.stores["train"]
            counts = class_counts(train, len(self.labels))
            weights = class_weights(self.recipe.model.class_weights, self.labels, counts, len(train))
        model = self._model(self.tokenizer, self.labels, weights)
        if self._first is not None:
            model.encoder.load_state_dict(self._first)
        return model

    def batches(self) -> LabeledBatches:
        training = self.recipe.training
        return LabeledBatches(
            self.prepared.stores["train"], self.labels, self.frame, training.max_tokens, seed=training.seed
        )

    def fingerprint(self) -> str:
        return self.prepared.stores["train"].digest()

    @torch.inference_mode()
    def valid(self, model: Classifier) -> tuple[Float[np.ndarray, "M N"], list[tuple[int, ...]]]:
        store, where = self.prepared.stores["valid"], _device(model)
        table = np.empty((len(store), len(self.labels)), np.float32)
        batches = LabeledBatches(store, self.labels, self.frame, self.recipe.training.max_tokens)
        with evaluating(model):
            for rows, batch in batches.in_order():
                table[rows] = model.logits(batch.inputs.to(where)).float().cpu().numpy()
        return table, [self.labels.decode(store[row][1]) for row in range(len(store))]

    def some(self, most: int) -> list[Example]:
        """The first validation examples of each label in turn."""
        pairs = texts(self.prepared.splits["valid"], most=200)
        by_label: dict[str, list[Pair]] = {}
        for pair in pairs:
            by_label.setdefault(pair.target, []).append(pair)
        turns = (pair for turn in range(most) for some in by_label.values() for pair in some[turn : turn + 1])
        return [self._example(pair) for pair in islice(turns, most)]

    # ----------------------------------------------------------------------------------------------------- the folder
    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        if isinstance(self.recipe.model, PretrainedClassifierSettings):
            assert self._settings is not None, "prepare or restore comes first"
            keep_settings(self._settings, folder)

    def restore(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.of_run(folder)
        self._labels = Labels.load(folder / "labels.json")
        if isinstance(self.recipe.model, PretrainedClassifierSettings):
            self._settings = kept_settings(folder)

    # ----------------------------------------------------------------------------------------------------- prediction
    def inputs(self, words: Sequence[str]) -> list[str]:
        return list(words)

    def shown(self, one: str) -> str:
        return one

    def test(self) -> tuple[list[Example], str]:
        source = labeled_source(self.data, "test")
        if source is None:
            raise CallError("the recipe has no test data: give data.test=FILE")
        items = list(source.read())
        examples = [self._example(item) for item in items if isinstance(item, Pair)]
        if not examples:
            raise RegardError(f"data.test={source.where}: there is not one text with a label in it")
        lost = len(items) - len(examples)
        return examples, f"{lost} lines of {source.where} that are no text with a label" if lost else ""

    @torch.inference_mode()
    def logits(self, model: Classifier, inputs: Sequence[str]) -> Float[np.ndarray, "M N"]:
        """Texts of like length together; what is longer than training allowed is cut."""
        ids = [self._ids(text) for text in inputs]
        where, frame = _device(model), self.frame

        def classify(numbers: list[int]) -> list[np.ndarray]:
            tokens = frame.read([ids[number] for number in numbers]).to(where)
            return list(model.logits(tokens).float().cpu().numpy())

        with evaluating(model):
            lengths = [len(one) for one in ids]
            found = dict(in_groups(range(len(ids)), lengths, self.recipe.decoding.batch_tokens, classify))
        return np.stack([found[number] for number in range(len(ids))])

    def look(
        self, model: Classifier, one: str, label: int, *, method: str, layer: int | None, head: Head
    ) -> AttentionRecord:
        return classify_looking.look(
            model, self.tokenizer, self.frame, one, self._ids(one), label, self.labels,
            method=method, layer=layer, head=head,
        )  # fmt: skip

    # ---------------------------------------------------------------------------------------------------------- parts
    def _model(self, tokenizer: Tokenizer, labels: Labels, weights: Float[Tensor, " N"] | None = None) -> Classifier:
        assert isinstance(self.recipe.model, TextModel)
        return build_text_classifier(
            self.recipe.model, tokenizer.size, tokenizer.specials, len(labels), self._settings, weights
        )

    @property
    def labels(self) -> Labels:
        assert self._labels is not None, "prepare or restore comes first"
        return self._labels

    @property
    def tokenizer(self) -> Tokenizer:
        assert self._tokenizer is not None, "prepare or restore comes first"
        return self._tokenizer

    @property
    def prepared(self) -> PreparedTexts:
        assert self._prepared is not None, "prepare comes first"
        return self._prepared

    @property
    def frame(self) -> Frame:
        """Transformers read a first token, whose vector stands for the whole text."""
        recurrent = isinstance(self.recipe.model, RecurrentClassifierSettings)
        return Frame.of(self.tokenizer.specials, first=not recurrent)

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)[: self.data.max_length - 1]

    def _example(self, pair: Pair) -> Example:
        return Example(pair.source, self.labels.writing.labels(pair.target))


def _device(model: Classifier) -> torch.device:
    return next(model.parameters()).device
