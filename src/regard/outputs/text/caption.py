"""Pictures to text: the regions of a picture are the memory, and the decoders of translation write what it shows.

pictures → stores → batches → image encoder → Memory with its grid → decoder → loss        (training)
picture  → pixels → image encoder → Memory → search → token ids → text                     (prediction)
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.check_report import CheckReport
from regard.data.tables import Role
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.decoding.protocol import Hypothesis
from regard.errors import RegardError
from regard.inputs.image.batches import CaptionBatches, Captions, Sight
from regard.inputs.image.pictures import name_of, read_inputs, regions_of
from regard.inputs.image.prepare import form_of
from regard.inputs.image.store import PictureStore
from regard.job import PLAIN, Alignment, Output, Picture, Prediction, Scores, Wish
from regard.look import AttentionRecord
from regard.metrics.captions import SIGNATURE, caption_bleu, cider, plain_words
from regard.metrics.text import exact_match
from regard.models.vision import Captioner
from regard.outputs.text import caption_check, caption_looking
from regard.outputs.text.caption_build import build_captioner, picture_encoder
from regard.outputs.text.caption_check import estimates, nothing
from regard.outputs.text.caption_settings import CaptionRecipe
from regard.outputs.text.captioned import (
    cache_of,
    checked_stores,
    learned_tokenizer,
    sights_of,
    skipped,
    test_store,
    training_stores,
)
from regard.outputs.text.search import from_memory
from regard.settings.recipe import Recipe

QUICK = 200  # validation pictures that are captioned, greedily, while training goes on
PICTURES = 4  # filmstrips in the report


class Caption:
    """The job, under one recipe. `prepare` (training) or `restore` (prediction) brings the tokenizer."""

    takes: Literal["image"] = "image"

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer | None = None) -> None:
        assert isinstance(recipe, CaptionRecipe)
        self.recipe = recipe
        self._tokenizer = tokenizer
        self._stores: dict[Role, PictureStore] = {}
        self._sights: dict[Role, Sight] = {}

    def under(self, recipe: Recipe) -> "Caption":
        return Caption(recipe, self._tokenizer)

    # ------------------------------------------------------------------------------------------------------ training
    def prepare(self, cache: Path) -> None:
        data = self.recipe.data
        cache = cache_of(data, cache)
        self._stores = training_stores(data, cache)
        self._tokenizer = self._tokenizer or learned_tokenizer(data, self._stores["train"])
        self._sights = sights_of(
            self._stores, data, self.recipe.model.encoder, lambda: picture_encoder(self.recipe, None, pretrained=True),
            cache, self.recipe.training.seed,
        )  # fmt: skip

    def check(self, cache: Path) -> CheckReport:
        data = self.recipe.data
        stores = checked_stores(data, cache)
        tokenizer = self._tokenizer or learned_tokenizer(data, stores["train"])
        captions: dict[Role, Captions] = {
            role: Captions(store, tokenizer, data.max_length) for role, store in stores.items()
        }
        with torch.device("meta"):
            model = build_captioner(self.recipe, tokenizer.size)
        regions, training = regions_of(self.recipe.model.encoder, data), self.recipe.training
        batches = CaptionBatches(captions["train"], nothing, regions, training.max_tokens, seed=training.seed)
        return caption_check.check(data, regions, stores, captions, tokenizer, estimates(model, regions, batches))

    def build(self) -> Captioner:
        torch.manual_seed(self.recipe.training.seed)
        train = self._stores.get("train")
        return build_captioner(self.recipe, self.tokenizer.size, train, pretrained=train is not None)

    def batches(self) -> CaptionBatches:
        return self._batches("train")

    def _batches(self, role: Role) -> CaptionBatches:
        training, data = self.recipe.training, self.recipe.data
        captions = Captions(self._stores[role], self.tokenizer, data.max_length)
        if not len(captions):
            raise RegardError(f"data.{role}: every caption is longer than data.max_length={data.max_length}")
        regions = regions_of(self.recipe.model.encoder, data)
        return CaptionBatches(captions, self._sights[role], regions, training.max_tokens, seed=training.seed)

    def fingerprint(self) -> str:
        return self._stores["train"].digest()

    @torch.inference_mode()
    def validate(self, model: nn.Module) -> dict[str, float]:
        """Loss and accuracy a token of all validation captions; BLEU-4 and exact match, greedily, of some pictures."""
        assert isinstance(model, Captioner)
        device = next(model.parameters()).device
        total, count, correct = 0.0, 0, 0
        for batch in self._batches("valid").epoch(0):
            found = model(batch.to(device))
            total, count = total + float(found.total), count + found.count
            correct += 0 if found.correct is None else int(found.correct)
        said, references = self._quick(model)
        scores = {"loss": total / max(1, count), "accuracy": correct / max(1, count)}
        bleu = caption_bleu(said, references)
        return {**scores, "bleu4": bleu["bleu4"], "exact_match": _exact(said, references)}

    def _quick(self, model: Captioner) -> tuple[list[str], list[tuple[str, ...]]]:
        """What the model says, greedily, of the first validation pictures, and what is right."""
        store = self._stores["valid"]
        rows = np.arange(min(QUICK, len(store)))
        found = self._search(model, self._sights["valid"](rows, rows, 0), beam=1, n_best=1)
        said = [self.tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]
        return said, [store.entries[row].texts for row in rows]

    def sample(self, model: nn.Module) -> str:
        assert isinstance(model, Captioner)
        store = self._stores["valid"]
        rows = np.array([len(store) // 2])
        found = self._search(model, self._sights["valid"](rows, rows, 0), beam=1, n_best=1)
        entry = store.entries[rows[0]]
        return f"{entry.name}\n→ {self.tokenizer.decode(found[0][0].tokens)}\n= {entry.texts[0]}"

    def watch(self, model: nn.Module, most: int) -> list[AttentionRecord]:
        """A few validation pictures with their first caption; of a model that does not attend, nothing."""
        assert isinstance(model, Captioner)
        if not caption_looking.attends(model):
            return []
        store = self._stores["valid"]
        rows = range(0, len(store), max(1, len(store) // most))[:most]
        return [
            self.look(model, store.pixels[row].transpose(1, 2, 0), Wish(store.entries[row].texts[0])) for row in rows
        ]

    def pictures(self, model: nn.Module) -> list[Picture]:
        """Where the model looks, word by word, for a few validation pictures."""
        assert isinstance(model, Captioner)
        if not caption_looking.attends(model):
            return []
        store = self._stores["valid"]
        rows = range(0, len(store), len(store) // PICTURES + 1)
        return caption_looking.filmstrips([self.look(model, store.pixels[row].transpose(1, 2, 0)) for row in rows])

    # ---------------------------------------------------------------------------------------------------- the folder
    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)

    def restore(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.of_run(folder)

    # ---------------------------------------------------------------------------------------------------- prediction
    def inputs(self, words: Sequence[str]) -> list[str]:
        """Paths of pictures, members of a tar (images.tar/a.jpg), or rows of a corpus (corpus:shapes#7)."""
        return [word for word in words if word.strip()]

    def predict(
        self, model: nn.Module, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        assert isinstance(model, Captioner)
        pixels = read_inputs(inputs, form_of(self.recipe.data))
        found = self._search(model, pixels, prefix=prefix)
        predictions = []
        for one, seen, hypotheses in zip(inputs, pixels, found, strict=True):
            outputs = [Output(self.tokenizer.decode(h.tokens), h.score, h.log_probability) for h in hypotheses]
            alignment = None
            if attention and caption_looking.attends(model):
                alignment = self._alignment(model, seen, hypotheses[0].tokens)
            predictions.append(Prediction(name_of(one), outputs, alignment))
        return predictions

    def _alignment(self, model: Captioner, pixels: Tensor, tokens: Sequence[int]) -> Alignment:
        weights, _ = caption_looking.forced(model, pixels, tokens)
        rows, columns = caption_looking.grid_of(model)
        names = [f"{row},{column}" for row in range(rows) for column in range(columns)]
        return Alignment([*self.tokenizer.labels(tokens), "</s>"], names, weights)

    def _search(self, model: Captioner, seen: Tensor, *, prefix: str = "", **how: Any) -> list[list[Hypothesis]]:
        """`seen`: pixels, or the features of them."""
        decoding = self.recipe.decoding.model_copy(update=how)
        device, start = next(model.parameters()).device, self.tokenizer.encode(prefix)
        found: list[list[Hypothesis]] = []
        at_once = max(1, decoding.batch_tokens // regions_of(self.recipe.model.encoder, self.recipe.data))
        with torch.inference_mode():
            for group in seen.split(at_once):
                found += from_memory(model, model.encode(group.to(device)), decoding, start) if len(group) else []
        return found

    def score(self, model: nn.Module, inputs: Sequence[Any], outputs: Sequence[str]) -> list[Prediction]:
        """log p(caption | picture), the end symbol included."""
        assert isinstance(model, Captioner)
        pixels = read_inputs(inputs, form_of(self.recipe.data))
        found = []
        for one, seen, said in zip(inputs, pixels, outputs, strict=True):
            total = float(caption_looking.log_probabilities(model, seen, self.tokenizer.encode(said)).sum())
            found.append(Prediction(name_of(one), [Output(said, total, total)]))
        return found

    def look(self, model: nn.Module, text: Any, wish: Wish = PLAIN) -> AttentionRecord:
        """Where the model looks when it writes its own caption of a picture, or the given one."""
        assert isinstance(model, Captioner)
        pixels = read_inputs([text], form_of(self.recipe.data))
        score, others = None, []
        if wish.output is None:
            best, *others = self._search(model, pixels)[0]
            tokens, score = best.tokens, best.score
        else:
            tokens = self.tokenizer.encode(wish.output)
        seen = name_of(text)

        def record(ids: Sequence[int], worth: float | None) -> AttentionRecord:
            made = caption_looking.look(
                model, self.tokenizer, pixels[0], ids, method=wish.method, name=wish.name, input=seen
            )
            return replace(made, score=worth)

        return replace(
            record(tokens, score), gold=wish.gold, beams=tuple(record(other.tokens, other.score) for other in others)
        )

    # ---------------------------------------------------------------------------------------------------- evaluation
    def evaluate(self, model: nn.Module, *, alignments: bool = False) -> Scores:
        """BLEU-1 to 4, CIDEr-D and exact match against all references; the pointing game, where boxes are known."""
        assert isinstance(model, Captioner)
        with test_store(self.recipe.data) as store:
            found = self._search(model, torch.from_numpy(store.pixels.copy()), n_best=1)
            said = [self.tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]
            references = [entry.texts for entry in store.entries]
            values = {**caption_bleu(said, references), "cider": cider(said, references)}
            values |= {"exact_match": _exact(said, references), "pictures": float(len(store))}
            if caption_looking.attends(model):
                values |= caption_looking.pointing_game(model, self.tokenizer, store)
        return Scores(values, {"words": SIGNATURE, **skipped(store)})

    @property
    def tokenizer(self) -> Tokenizer:
        assert self._tokenizer is not None, "prepare or restore comes first"
        return self._tokenizer


def _exact(said: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """In percent; case and punctuation do not count, as for BLEU."""
    plain = [[" ".join(plain_words(text)) for text in given] for given in references]
    return exact_match([" ".join(plain_words(text)) for text in said], plain)
