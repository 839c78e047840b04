"""Text to pictures: a picture is a grid of tokens, and a language model writes them after those of the sentence.

pictures → stores → batches → tokenizer → pixels again → loss                              (training, first stage)
text, picture → token ids → decoder → loss                                                 (training, second stage)
text → token ids → decoder → draw → codes → tokenizer → pixels                             (prediction)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.data.check_report import CheckReport
from regard.data.tables import Role
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.errors import CallError, RegardError
from regard.inputs.image.batches import CaptionBatches, Captions, Pixels
from regard.inputs.image.pictures import read_inputs
from regard.inputs.image.prepare import form_of
from regard.inputs.image.store import PictureStore
from regard.look import AttentionRecord
from regard.look.of_model import evaluating
from regard.models.drawer import DrawBatch, Drawer
from regard.old_job import PLAIN, Output, Picture, Prediction, Scores, Wish
from regard.outputs.picture import looking as draw_looking
from regard.outputs.picture import scores as draw_scores
from regard.outputs.picture.build import build_drawer, grid_of
from regard.outputs.picture.drawing import Drawn, candidates, codes_of, device_of, painted, rebuilt, similarity
from regard.outputs.picture.result import Drawing
from regard.outputs.picture.settings import DrawRecipe
from regard.outputs.text import caption_check
from regard.outputs.text.caption_check import estimates, nothing
from regard.outputs.text.captioned import (
    cache_of,
    checked_stores,
    learned_tokenizer,
    skipped,
    test_store,
    training_stores,
)
from regard.settings.recipe import Recipe
from regard.special_tokens import END, UNK


@dataclass(frozen=True)
class _Staged:
    """Captions with their pictures. Epochs of both stages are alike: every caption once."""

    captions: CaptionBatches
    first: int  # epochs of the tokenizer

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[DrawBatch]:
        for batch in self.captions.epoch(number, start, rank, world):
            yield DrawBatch(batch.source, batch.target, number < self.first)

    def len_epoch(self, number: int) -> int:
        return self.captions.len_epoch(number)


class Draw:
    """The job, under one recipe. `prepare` (training) or `restore` (prediction) brings the tokenizer of texts."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer | None = None) -> None:
        assert isinstance(recipe, DrawRecipe)
        self.recipe = recipe
        self._tokenizer = tokenizer
        self._stores: dict[Role, PictureStore] = {}

    def under(self, recipe: Recipe) -> "Draw":
        return Draw(recipe, self._tokenizer)

    # ------------------------------------------------------------------------------------------------------ training
    def prepare(self, cache: Path) -> None:
        data = self.recipe.data
        self._stores = training_stores(data, cache_of(data, cache))
        self._tokenizer = self._tokenizer or learned_tokenizer(data, self._stores["train"])

    def check(self, cache: Path) -> CheckReport:
        data, training = self.recipe.data, self.recipe.training
        stores = checked_stores(data, cache)
        tokenizer = self._tokenizer or learned_tokenizer(data, stores["train"])
        captions: dict[Role, Captions] = {
            role: Captions(store, tokenizer, data.max_length) for role, store in stores.items()
        }
        with torch.device("meta"):
            model = build_drawer(self.recipe, tokenizer.size)
        batches = CaptionBatches(captions["train"], nothing, model.regions, training.max_tokens, seed=training.seed)
        costs = estimates(model, model.regions, batches)
        return caption_check.check(data, model.regions, stores, captions, tokenizer, costs)

    def build(self) -> Drawer:
        torch.manual_seed(self.recipe.training.seed)
        return build_drawer(self.recipe, self.tokenizer.size, self._stores.get("train"))

    def batches(self) -> _Staged:
        augment, seed = self.recipe.data.augment, self.recipe.training.seed
        sight = Pixels(self._stores["train"], augment, seed)
        return _Staged(self._batches(self._stores["train"], sight, "train"), self.recipe.model.tokenizer.epochs)

    def _batches(self, store: PictureStore, sight: Pixels, role: Role) -> CaptionBatches:
        training, data = self.recipe.training, self.recipe.data
        captions = Captions(store, self.tokenizer, data.max_length)
        if not len(captions):
            raise RegardError(f"data.{role}: every caption is longer than data.max_length={data.max_length}")
        rows, columns = grid_of(self.recipe)
        return CaptionBatches(captions, sight, rows * columns, training.max_tokens, seed=training.seed)

    def fingerprint(self) -> str:
        return self._stores["train"].digest()

    @torch.inference_mode()
    def validate(self, model: nn.Module) -> dict[str, float]:
        """`loss` is the sum of what regions cost and what tokens lose, so that it falls in both stages."""
        assert isinstance(model, Drawer)
        store = self._stores["valid"]
        costs = draw_scores.costs(model, _Staged(self._batches(store, Pixels(store), "valid"), 0).epoch(0))
        return {"loss": costs["region_loss"] + costs["reconstruction"], **costs}

    def sample(self, model: nn.Module) -> str:
        """What was drawn for a validation sentence, as its codes."""
        assert isinstance(model, Drawer)
        store = self._stores["valid"]
        sentence = store.entries[len(store) // 2].texts[0]
        codes = self._candidates(model, [sentence], 1)[0][0].codes
        return f"{sentence}\n→ {_as_text(codes)}"

    def pictures(self, model: nn.Module) -> list[Picture]:
        """Validation pictures, what tokens keep of them, and what is drawn for their sentences; and where it looked."""
        assert isinstance(model, Drawer)
        store = self._stores["valid"]
        sentences, true = draw_scores.asked(store)[: draw_scores.SHOWN], _pixels(store, draw_scores.SHOWN)
        found = self._candidates(model, sentences, 3)
        drawn = [painted(model, [row[number].codes for row in found]) for number in range(3)]
        return draw_scores.page(sentences, true, rebuilt(model, true), drawn)

    def watch(self, model: nn.Module, most: int) -> list[AttentionRecord]:
        """Where the model looks when it is forced to draw validation pictures."""
        assert isinstance(model, Drawer)
        entries = self._stores["valid"].entries[:most]
        rows = zip(entries, _pixels(self._stores["valid"], most), strict=True)
        return [self._looked(model, entry.texts[0], codes_of(model, one[None])[0]) for entry, one in rows]

    # ---------------------------------------------------------------------------------------------------- the folder
    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)

    def restore(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.of_run(folder)

    # ---------------------------------------------------------------------------------------------------- prediction
    def inputs(self, words: Sequence[str]) -> list[str]:
        return list(words)

    def predict(
        self, model: nn.Module, inputs: Sequence[str], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        assert isinstance(model, Drawer)
        if prefix:
            raise CallError("a drawing has no text that it could begin with: leave the prefix out")
        if attention:
            raise CallError(
                "a drawing is not aligned with its sentence; `look` shows which words its regions looked at"
            )
        predictions: list[Prediction] = []
        for text, drawn in zip(inputs, self._ranked(model, inputs), strict=True):
            best = drawn[: self.recipe.decoding.n_best]
            outputs = [Output(_as_text(one.codes), score, one.log_probability) for score, one in best]
            pictures = painted(model, [one.codes for _, one in best]).permute(0, 2, 3, 1).numpy()
            predictions.append(Drawing(text, outputs, None, tuple(pictures), tuple(self._unknown(text))))
        return predictions

    def _ranked(self, model: Drawer, texts: Sequence[str]) -> list[list[tuple[float, Drawn]]]:
        """The candidates of each sentence, best first, with what they are ranked by."""
        how, ranked = self.recipe.decoding, []
        for text, drawn in zip(texts, self._candidates(model, texts, max(how.candidates, how.n_best)), strict=True):
            scores = [one.log_probability for one in drawn]
            if how.rerank is not None:
                pictures = painted(model, [one.codes for one in drawn])
                scores = similarity(how.rerank, pictures, [text], device=device_of(model))[:, 0].tolist()
            ranked.append(sorted(zip(scores, drawn, strict=True), key=lambda one: -one[0]))
        return ranked

    def _candidates(self, model: Drawer, texts: Sequence[str], each: int) -> list[list[Drawn]]:
        return candidates(model, [self._prompt(model, text) for text in texts], self.recipe.decoding, each)

    def _prompt(self, model: Drawer, text: str) -> list[int]:
        return model.prompt(torch.tensor([[*self._ids(text), END]]))[0].tolist()

    def _ids(self, text: str) -> list[int]:
        """Of a sentence that can be drawn."""
        ids, most = self.tokenizer.encode(text), self.recipe.data.max_length - 1
        if not ids:
            raise CallError("the sentence is empty: say what is to be drawn")
        if len(ids) > most:
            raise CallError(f"the sentence has {len(ids)} tokens, and this model reads {most}: {text[:60]!r}...")
        if all(token == UNK for token in ids):
            raise CallError(f"the model knows no word of {text!r}: there is nothing it could draw")
        return ids

    def _unknown(self, text: str) -> list[str]:
        pairs = zip(self.tokenizer.encode(text), self.tokenizer.spans(text), strict=True)
        return [text[span.start : span.end] for token, span in pairs if token == UNK]

    @torch.inference_mode()
    def score(self, model: nn.Module, inputs: Sequence[str], outputs: Sequence[Any]) -> list[Prediction]:
        """log p(picture | sentence) of given pictures: a `Path`, an array, or what Pillow has opened."""
        assert isinstance(model, Drawer)
        codes = codes_of(model, self._given(outputs))
        found, device = [], device_of(model)
        for text, one in zip(inputs, codes, strict=True):
            ended = torch.tensor([[*self._ids(text), END]], device=device)
            total = float(model.scores(ended, one[None].to(device)).sum())
            found.append(Prediction(text, [Output(_as_text(one), total, total)]))
        return found

    def look(self, model: nn.Module, text: str, wish: Wish = PLAIN) -> AttentionRecord:
        """Which words each region was drawn from: of the model's own drawing, or of a given picture."""
        assert isinstance(model, Drawer)
        if wish.gold is not None:
            raise CallError("gold links are between words, and a drawing has none")
        draw_looking.require_raw(wish.method)
        if wish.output is None:
            return self._looked(model, text, self._ranked(model, [text])[0][0][1].codes, wish.name)
        return self._looked(model, text, codes_of(model, self._given([wish.output]))[0], wish.name)

    def outputs(self, words: Sequence[str]) -> list[Path]:
        return [Path(word) for word in words]

    def _given(self, pictures: Sequence[Any]) -> Tensor:
        """A text is never taken for the name of a file: it may come from anybody."""
        if any(isinstance(one, str) for one in pictures):
            raise CallError("a text is no picture: give a pathlib.Path, an array, or what Pillow has opened")
        return read_inputs(pictures, form_of(self.recipe.data))

    def _looked(self, model: Drawer, text: str, codes: Int[Tensor, " K"], name: str = "") -> AttentionRecord:
        return draw_looking.look(model, self.tokenizer, text, self._ids(text), codes, name=name)

    # ---------------------------------------------------------------------------------------------------- evaluation
    def evaluate(self, model: nn.Module, *, alignments: bool = False) -> Scores:
        """What regions cost and tokens keep; on corpus:shapes, what drawings show; with a reranker, how they fit."""
        assert isinstance(model, Drawer)
        if alignments:
            raise CallError("a drawing has no words that could be aligned")
        rerank, details = self.recipe.decoding.rerank, {}
        with test_store(self.recipe.data) as store, evaluating(model):
            with torch.inference_mode():
                values = draw_scores.costs(model, _Staged(self._batches(store, Pixels(store), "test"), 0).epoch(0))
            values |= {"bits_per_region": values["region_loss"] / float(np.log(2)), "pictures": float(len(store))}
            pictures: list[Picture] = []
            if draw_scores.is_shapes(store) or rerank:
                sentences = draw_scores.asked(store)
                true = _pixels(store, len(sentences))
                drawn = painted(model, [ranked[0][1].codes for ranked in self._ranked(model, sentences)])
                kept = rebuilt(model, true)
                pictures = draw_scores.page(sentences, true, kept, [drawn])
                if draw_scores.is_shapes(store):
                    found, details = draw_scores.shown_right(sentences, drawn, true, kept)
                    values |= found
                if rerank:
                    fit = partial(similarity, rerank, device=device_of(model))
                    values |= draw_scores.similarities(sentences, drawn, true, fit)
            return Scores(values, skipped(store), details, pictures)

    @property
    def tokenizer(self) -> Tokenizer:
        assert self._tokenizer is not None, "prepare or restore comes first"
        return self._tokenizer


def _pixels(store: PictureStore, most: int) -> Tensor:
    return torch.from_numpy(np.array(store.pixels[:most]))


def _as_text(codes: Int[Tensor, " K"]) -> str:
    return " ".join(map(str, codes.tolist()))
