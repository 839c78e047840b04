"""Pictures and texts in one space: which text says what a picture shows, and which picture shows what a text says.

pictures and captions → stores → batches → two towers → each pair told apart from the others       (training)
picture, labels → vectors → cosines → the label that fits best, though none was trained on          (prediction)
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.data.check_report import CheckReport
from regard.data.tables import Role
from regard.data.tokens import TOKENIZER, Tokenizer
from regard.encoders.image_input import PictureEncoder
from regard.errors import CallError, RegardError
from regard.inputs.image.batches import Captions, Sight
from regard.inputs.image.pictures import name_of, read_inputs
from regard.inputs.image.prepare import form_of
from regard.inputs.image.store import PictureStore
from regard.inputs.text.body_settings import PretrainedTextSettings
from regard.look import AttentionRecord
from regard.models.two_towers import TwoTowers
from regard.old_job import PLAIN, Output, Picture, Prediction, Scores, Wish
from regard.outputs.labels.output import Classified
from regard.outputs.text import caption_check
from regard.outputs.text.caption_check import estimates, nothing
from regard.outputs.text.captioned import (
    cache_of,
    checked_stores,
    learned_tokenizer,
    sights_of,
    test_store,
    training_stores,
)
from regard.outputs.vector import match_looking, match_scores
from regard.outputs.vector.match_batches import MatchBatches
from regard.outputs.vector.match_build import build_two_towers, tower_encoder
from regard.outputs.vector.match_settings import MatchRecipe
from regard.outputs.vector.match_vectors import Vectors
from regard.pretrained import encoder, keep_settings, kept_settings
from regard.settings.encoder import EncoderSettings
from regard.settings.recipe import Recipe

QUICK = 500  # validation pictures that are told apart while training goes on
PICTURES = 4  # in the report
KEPT = 1000  # captions of training that a run keeps, for whoever asks without labels
CAPTIONS = "captions.json"


class Match:
    """The job, under one recipe. `prepare` (training) or `restore` (prediction) brings the tokenizer and the sizes."""

    takes: Literal["image"] = "image"

    def __init__(
        self,
        recipe: Recipe,
        tokenizer: Tokenizer | None = None,
        settings: EncoderSettings | None = None,
        captions: Sequence[str] = (),
    ) -> None:
        assert isinstance(recipe, MatchRecipe)
        self.recipe = recipe
        self._tokenizer, self._settings, self._captions = tokenizer, settings, captions
        self._first: dict[str, Tensor] | None = None  # weights that the text tower begins with
        self._stores: dict[Role, PictureStore] = {}
        self._sights: dict[Role, Sight] = {}

    def under(self, recipe: Recipe) -> "Match":
        return Match(recipe, self._tokenizer, self._settings, self._captions)

    # ------------------------------------------------------------------------------------------------------ training
    def prepare(self, cache: Path) -> None:
        data = self.recipe.data
        cache = cache_of(data, cache)
        self._stores = training_stores(data, cache)
        train = self._stores["train"]
        self._tokenizer = self._given_tokenizer() or learned_tokenizer(data, train)
        self._captions = match_scores.spread([text for entry in train.entries for text in entry.texts], KEPT)
        self._sights = sights_of(
            self._stores, data, self.recipe.model.image.encoder,
            lambda: tower_encoder(self.recipe, None, pretrained=True), cache, self.recipe.training.seed,
        )  # fmt: skip

    def _given_tokenizer(self) -> Tokenizer | None:
        """That of the start, or of a pretrained text tower; None if there is neither."""
        text = self.recipe.model.text
        if self._tokenizer is None and isinstance(text, PretrainedTextSettings):
            found = encoder(text.path, dropout=text.dropout)
            self._settings, self._tokenizer, self._first = found.settings, found.tokenizer, found.weights
        return self._tokenizer

    def check(self, cache: Path) -> CheckReport:
        data, training = self.recipe.data, self.recipe.training
        stores = checked_stores(data, cache)
        tokenizer = self._given_tokenizer() or learned_tokenizer(data, stores["train"])
        captions: dict[Role, Captions] = {
            role: Captions(store, tokenizer, data.max_length) for role, store in stores.items()
        }
        with torch.device("meta"):
            model = build_two_towers(self.recipe, tokenizer, self._settings)
        reads = Vectors(self.recipe, tokenizer)
        regions, most = reads.regions, training.max_tokens
        batches = MatchBatches(captions["train"], nothing, reads.frame, regions, most, seed=training.seed)
        return caption_check.check(data, regions, stores, captions, tokenizer, estimates(model, regions, batches))

    def build(self) -> TwoTowers:
        torch.manual_seed(self.recipe.training.seed)
        train = self._stores.get("train")
        model = build_two_towers(self.recipe, self.tokenizer, self._settings, train, pretrained=train is not None)
        if self._first is not None:
            model.text.encoder.load_state_dict(self._first)
        return model

    def batches(self) -> MatchBatches:
        return self._batches(self._stores["train"], self._sights["train"], "train")

    def _batches(self, store: PictureStore, sight: Sight, role: Role) -> MatchBatches:
        training, data = self.recipe.training, self.recipe.data
        captions = Captions(store, self.tokenizer, data.max_length)
        if not len(captions):
            raise RegardError(f"data.{role}: every caption is longer than data.max_length={data.max_length}")
        frame, regions = self.vectors.frame, self.vectors.regions
        return MatchBatches(captions, sight, frame, regions, training.max_tokens, seed=training.seed)

    def fingerprint(self) -> str:
        return self._stores["train"].digest()

    def validate(self, model: nn.Module) -> dict[str, float]:
        """The loss of all validation pictures; of the first of them, how well pictures and captions find each other."""
        assert isinstance(model, TwoTowers)
        store, sight = self._stores["valid"], self._sights["valid"]
        rows = np.arange(min(QUICK, len(store)))
        found = match_scores.told_apart(self.vectors, model, sight(rows, rows, 0), store.entries[: len(rows)])
        loss = match_scores.mean_loss(model, self._batches(store, sight, "valid"))
        return {"loss": loss, "temperature": 1 / model.scale.item(), **found.values}

    def sample(self, model: nn.Module) -> str:
        assert isinstance(model, TwoTowers)
        store = self._stores["valid"]
        row = np.array([len(store) // 2])
        texts = match_scores.spread([text for entry in store.entries for text in entry.texts], KEPT)
        cosines = self.vectors.texts(model, texts) @ self.vectors.images(model, self._sights["valid"](row, row, 0))[0]
        entry = store.entries[row[0]]
        return f"{entry.name}\n→ {texts[int(cosines.argmax())]}\n= {entry.texts[0]}"

    def pictures(self, model: nn.Module) -> list[Picture]:
        """Where the model looks in a few validation pictures when it is told what they show."""
        return match_looking.shown(self.watch(model, PICTURES))

    def watch(self, model: nn.Module, most: int) -> list[AttentionRecord]:
        assert isinstance(model, TwoTowers)
        if not match_looking.attends(model):
            return []
        store = self._stores["valid"]
        rows = range(0, len(store), max(1, len(store) // most))[:most]
        return [
            self.look(model, store.pixels[row].transpose(1, 2, 0), Wish(store.entries[row].texts[0])) for row in rows
        ]

    # ---------------------------------------------------------------------------------------------------- the folder
    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        (folder / CAPTIONS).write_text(json.dumps(list(self._captions), ensure_ascii=False), encoding="utf-8")
        if isinstance(self.recipe.model.text, PretrainedTextSettings):
            assert self._settings is not None, "prepare or restore comes first"
            keep_settings(self._settings, folder)

    def restore(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.of_run(folder)
        try:
            self._captions = json.loads((folder / CAPTIONS).read_text(encoding="utf-8"))
        except OSError as error:
            raise RegardError(f"{folder}: the run has lost its captions ({error})") from None
        if isinstance(self.recipe.model.text, PretrainedTextSettings):
            self._settings = kept_settings(folder)

    # ---------------------------------------------------------------------------------------------------- prediction
    def inputs(self, words: Sequence[str]) -> list[str]:
        """Paths of pictures, members of a tar (images.tar/a.jpg), or rows of a corpus (corpus:shapes#7)."""
        return [word for word in words if word.strip()]

    def predict(
        self, model: nn.Module, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        """Which of the labels (or, without any, of the kept captions) says best what each picture shows."""
        assert isinstance(model, TwoTowers)
        if prefix:
            raise CallError(f"prefix={prefix!r}: a label is chosen, not written, so it cannot be told how to begin")
        labels, vectors = self._choices(model)
        cosines = self.vectors.pictures(model, inputs) @ vectors.T
        chances = (model.scale.detach().cpu() * cosines).softmax(1)
        return [self._prediction(one, labels, chance.tolist()) for one, chance in zip(inputs, chances, strict=True)]

    def _choices(self, model: TwoTowers) -> tuple[Sequence[str], Float[Tensor, "N D"]]:
        how = self.recipe.decoding
        if how.labels:
            return how.labels, self.vectors.labels(model, how.labels)
        if not self._captions:
            raise CallError("say what the pictures may show, to choose from: labels=['a dog', 'a cat']")
        return self._captions, self.vectors.texts(model, self._captions)

    def _prediction(self, one: Any, labels: Sequence[str], chances: list[float]) -> Classified:
        order = sorted(range(len(labels)), key=lambda number: -chances[number])
        most = order[: self.recipe.decoding.n_best]
        outputs = [
            Output(labels[number], chances[number], float(np.log(max(chances[number], 1e-45)))) for number in most
        ]
        said = {labels[number]: chances[number] for number in order} if self.recipe.decoding.labels else {}
        return Classified(name_of(one), outputs, labels=[labels[order[0]]], probabilities=said)

    def score(self, model: nn.Module, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Prediction]:
        """The cosine of each picture and its text."""
        cosines = self.similarity(model, inputs, outputs).diagonal()
        return [
            Prediction(name_of(one), [Output(text, float(cosine), 0.0)])
            for one, text, cosine in zip(inputs, outputs, cosines, strict=True)
        ]

    def similarity(self, model: nn.Module, pictures: Sequence[Any], texts: Sequence[str]) -> Float[Tensor, "N M"]:
        """The cosine of every picture (path, bytes, array or Pillow's) with every text."""
        assert isinstance(model, TwoTowers)
        return self.vectors.pictures(model, pictures) @ self.vectors.texts(model, texts).T

    def look(self, model: nn.Module, text: Any, wish: Wish = PLAIN) -> AttentionRecord:
        """Where the model looks in a picture, and which words of a text it heeds: the given one, or the best."""
        assert isinstance(model, TwoTowers)
        said = self.predict(model, [text])[0].text if wish.output is None else wish.output
        pixels = read_inputs([text], form_of(self.recipe.data))[0]
        record = match_looking.look(
            model, self.tokenizer, self.vectors.frame, pixels, said, self.vectors.ids(said),
            method=wish.method, name=wish.name, input=name_of(text),
        )  # fmt: skip
        record.matrix(None, wish.layer, wish.head)  # says what is wrong with a layer or head that is not there
        return record

    # ---------------------------------------------------------------------------------------------------- evaluation
    def evaluate(self, model: nn.Module, *, alignments: bool = False) -> Scores:
        """Recall at 1, 5 and 10 both ways beside chance; and zero-shot accuracy, where there are labeled pictures."""
        assert isinstance(model, TwoTowers)
        seen, data = model.image.encoder, self.recipe.data
        assert isinstance(seen, PictureEncoder)
        with test_store(data) as store:
            reads, cache = self.recipe.model.image.encoder, store.folder.parent
            sight = sights_of({"test": store}, data, reads, lambda: seen, cache, self.recipe.training.seed)["test"]
            return match_scores.scores(self.vectors, model, store, sight, self._batches(store, sight, "test"))

    @property
    def vectors(self) -> Vectors:
        return Vectors(self.recipe, self.tokenizer)

    @property
    def tokenizer(self) -> Tokenizer:
        assert self._tokenizer is not None, "prepare or restore comes first"
        return self._tokenizer
