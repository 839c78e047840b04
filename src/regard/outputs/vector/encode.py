"""Texts into vectors: for search, for similarity, and as what other jobs begin with.

pairs → token ids → batches → encoder → two vectors a pair → contrast with the other pairs      (training)
text  → token ids → encoder → one vector                                                        (prediction)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Trace
from regard.data.check_report import CheckReport
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.errors import CallError
from regard.inputs.text.pair_check import check
from regard.inputs.text.pair_prepare import PreparedPairs, prepare
from regard.inputs.text.splits import pair_source
from regard.look import AttentionRecord, Axis, Token, record
from regard.look.methods.rollout import rollout
from regard.look.of_model import evaluating
from regard.metrics.retrieval import retrieval
from regard.models.embedder import Embedder
from regard.old_job import PLAIN, Output, Picture, Prediction, Scores, Wish
from regard.outputs.text import scoring
from regard.outputs.text.search import in_groups
from regard.outputs.vector.contrast_batches import ContrastBatches
from regard.outputs.vector.encode_settings import EncodeRecipe
from regard.parts import build_encoder
from regard.pretrained import encoder, keep_settings, kept_settings
from regard.settings.encoder import EncoderSettings, PretrainedSettings
from regard.settings.recipe import Recipe

QUICK = 1000  # validation pairs that are told apart while training goes on
METHODS = ("raw", "rollout")


@dataclass(frozen=True, kw_only=True)
class Vector(Prediction):
    """The vector of one text; `text` has its numbers, separated by spaces."""

    vector: Float[np.ndarray, " D"]

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "vector": self.vector.tolist()}


class Encode:
    """The job, under one recipe. `prepare` (training) or `restore` (prediction) brings the tokenizer and the sizes."""

    def __init__(
        self, recipe: Recipe, tokenizer: Tokenizer | None = None, settings: EncoderSettings | None = None
    ) -> None:
        assert isinstance(recipe, EncodeRecipe)
        self.recipe = recipe
        self._tokenizer, self._settings = tokenizer, settings
        self._first: dict[str, Tensor] | None = None  # weights that training begins with
        self._prepared: PreparedPairs | None = None

    def under(self, recipe: Recipe) -> "Encode":
        return Encode(recipe, self._tokenizer, self._settings)

    # ------------------------------------------------------------------------------------------------------- training
    def prepare(self, cache: Path) -> None:
        self._prepared = self._read(cache, strict=True)
        self._tokenizer = self._prepared.source

    def check(self, cache: Path) -> CheckReport:
        return check(self.recipe.data, self._read(cache, strict=False))

    def _read(self, cache: Path, *, strict: bool) -> PreparedPairs:
        model = self.recipe.model
        if isinstance(model, EncoderSettings):
            self._settings = model
        elif self._tokenizer is None:
            found = encoder(model.path, dropout=model.dropout)
            self._settings, self._tokenizer, self._first = found.settings, found.tokenizer, found.weights
        own = None if self._tokenizer is None else (self._tokenizer, self._tokenizer)
        return prepare(self.recipe.data, cache, tokenizers=own, strict=strict)

    def build(self) -> Embedder:
        torch.manual_seed(self.recipe.training.seed)
        tokenizer, how = self.tokenizer, self.recipe.vectors
        start = tokenizer.specials.start
        assert self._settings is not None, "prepare or restore comes first"
        assert start is not None  # `framed` and the store have asked for it
        body = build_encoder(self._settings, tokenizer.size, pad=tokenizer.specials.pad or 0)
        if self._first is not None:
            body.load_state_dict(self._first)
        return Embedder(body, start=start, pooling=how.pooling, normalize=how.normalize, temperature=how.temperature)

    def batches(self) -> ContrastBatches:
        training = self.recipe.training
        return ContrastBatches(self.data.train, training.max_tokens, seed=training.seed)

    def fingerprint(self) -> str:
        return self.data.train.digest()

    def validate(self, model: nn.Module) -> dict[str, float]:
        """The loss of all validation pairs; of the first of them, how often a text finds its partner among them."""
        pairs = scoring.texts(self.data.splits["valid"], most=QUICK)
        found = self._told_apart(model, [pair.source for pair in pairs], [pair.target for pair in pairs])
        where, total, count = next(model.parameters()).device, 0.0, 0
        with torch.inference_mode():
            for batch in ContrastBatches(self.data.valid, self.recipe.training.max_tokens).epoch(0):
                loss = model(batch.to(where))
                total, count = total + float(loss.total), count + int(loss.count)
        return {"loss": total / max(1, count), **found}

    def sample(self, model: nn.Module) -> str:
        pair, *others = scoring.texts(self.data.splits["valid"], most=QUICK)
        targets = [pair.target, *(other.target for other in others)]
        cosines = self._vectors(model, targets) @ self._vectors(model, [pair.source])[0]
        return f"{pair.source}\n→ {targets[int(cosines.argmax())]}\n= {pair.target}"

    def pictures(self, model: nn.Module) -> list[Picture]:
        return []

    # ----------------------------------------------------------------------------------------------------- the folder
    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        if isinstance(self.recipe.model, PretrainedSettings):
            assert self._settings is not None
            keep_settings(self._settings, folder)

    def restore(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.of_run(folder)
        self._settings = kept_settings(folder)

    # ----------------------------------------------------------------------------------------------------- prediction
    def inputs(self, words: Sequence[str]) -> list[str]:
        return list(words)

    def predict(
        self, model: nn.Module, inputs: Sequence[str], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        """A vector for each text. There is no output that could begin with a prefix, and no alignment."""
        if prefix:
            raise CallError(f"prefix={prefix!r}: a vector does not begin with a text")
        return [
            Vector(text, [Output(" ".join(f"{value:.6g}" for value in vector), 0.0, 0.0)], vector=vector)
            for text, vector in zip(inputs, self._vectors(model, inputs), strict=True)
        ]

    def score(self, model: nn.Module, inputs: Sequence[str], outputs: Sequence[str]) -> list[Prediction]:
        """The cosine of the two vectors, for each pair of an input and an output."""
        cosines = (_unit(self._vectors(model, inputs)) * _unit(self._vectors(model, outputs))).sum(1)
        return [
            Prediction(text, [Output(other, float(cosine), 0.0)])
            for text, other, cosine in zip(inputs, outputs, cosines, strict=True)
        ]

    def look(self, model: nn.Module, text: str, wish: Wish = PLAIN) -> AttentionRecord:
        """Where each token of the text looks, in every layer and head; with an output, of the two as one pair."""
        assert isinstance(model, Embedder)
        if wish.method not in METHODS:
            raise CallError(f"method={wish.method!r} is not for encoders; {' and '.join(METHODS)} are")
        tokens, types = self._framed(text, wish.output)
        where = next(model.parameters()).device
        segments = None if wish.output is None else torch.tensor([types], device=where)
        with evaluating(model), torch.no_grad(), Trace(model) as seen:
            model.encoder(torch.tensor([tokens], device=where), segments)
        weights = {name: seen[name][0].float().cpu().numpy() for name in seen.names}
        if wish.method == "rollout":
            weights = {wish.method: rollout(list(weights.values()))}
        return record(
            weights, self._axis(tokens, text, wish.output), kind="encoder", method=wish.method, model=wish.name,
            input=text if wish.output is None else f"{text} {wish.output}",
        )  # fmt: skip

    # ----------------------------------------------------------------------------------------------------- evaluation
    def evaluate(self, model: nn.Module, *, alignments: bool = False) -> Scores:
        """How often each text of the test data finds its partner among all of them, in both directions."""
        test = pair_source(self.recipe.data, "test")
        if test is None:
            raise CallError("the recipe has no test data: give data.test=FILE")
        pairs, bad = scoring.read_all(test)
        values = self._told_apart(model, [pair.source for pair in pairs], [pair.target for pair in pairs])
        notes = {"skipped": f"{bad} lines of {test.where} that are no pairs"} if bad else {}
        return Scores({**values, "pairs": float(len(pairs))}, notes)

    def _told_apart(self, model: nn.Module, sources: list[str], targets: list[str]) -> dict[str, float]:
        return retrieval(_unit(self._vectors(model, sources)), _unit(self._vectors(model, targets)))

    # ---------------------------------------------------------------------------------------------------------- parts
    @torch.inference_mode()
    def _vectors(self, model: nn.Module, texts: Sequence[str]) -> Float[np.ndarray, "B D"]:
        assert isinstance(model, Embedder)
        sentences = [self._framed(text)[0] for text in texts]
        where = next(model.parameters()).device

        def encode(numbers: list[int]) -> list[np.ndarray]:
            tokens = _padded([sentences[number] for number in numbers], model.encoder.pad).to(where)
            return list(model.vectors(tokens).float().cpu().numpy())

        with evaluating(model):
            found = dict(
                in_groups(range(len(texts)), list(map(len, sentences)), self.recipe.vectors.batch_tokens, encode)
            )
        width = model.encoder.memory_width
        return np.stack([found[number] for number in range(len(texts))]) if texts else np.empty((0, width))

    def _framed(self, text: str, second: str | None = None) -> tuple[list[int], list[int]]:
        """Token ids and segments, cut at the longest that the model knows, or refused."""
        most = self.recipe.data.max_length + 1 - (2 if second is None else 3)  # start, end, end
        sides = [self.tokenizer.encode(side) for side in (text, second) if side is not None]
        long = sum(map(len, sides))
        if long > most:
            if self.recipe.data.overlong != "cut" or second is not None:
                raise CallError(f"the text {text[:40]!r} has {long} tokens, more than the {most} that the model reads")
            sides[0] = sides[0][:most]
        return self.tokenizer.framed(*sides)

    def _axis(self, tokens: list[int], text: str, second: str | None) -> Axis:
        whole = text if second is None else f"{text} {second}"
        spans = [*self.tokenizer.spans(text)]
        if second is not None:
            shift, last = len(text) + 1, max((span.word for span in spans), default=-1) + 1
            spans += [
                span._replace(start=span.start + shift, end=span.end + shift, word=span.word + last)
                for span in self.tokenizer.spans(second)
            ]
        places = iter(spans)
        labels = self.tokenizer.labels(tokens)
        frame = {self.tokenizer.specials.start, self.tokenizer.specials.end}
        found = []
        for index, label in zip(tokens, labels, strict=True):
            if index in frame:
                found.append(Token(label, special=True))
                continue
            span = next(places)
            found.append(Token(label, (span.start, span.end), span.word))
        return Axis(tuple(found), whole)

    @property
    def tokenizer(self) -> Tokenizer:
        assert self._tokenizer is not None, "prepare or restore comes first"
        return self._tokenizer

    @property
    def data(self) -> PreparedPairs:
        assert self._prepared is not None, "prepare comes first"
        return self._prepared


def _padded(sentences: Iterable[list[int]], pad: int) -> Tensor:
    rows = [torch.tensor(ids) for ids in sentences]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)


def _unit(vectors: Float[np.ndarray, "B D"]) -> Float[np.ndarray, "B D"]:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
