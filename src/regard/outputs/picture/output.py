"""Pictures come out: a picture is a grid of tokens, and a language model writes them after those of the sentence.

pictures → stores → batches → tokenizer → pixels again → loss                              (training, first stage)
text, picture → token ids → decoder → loss                                                 (training, second stage)
text → token ids → decoder → draw → codes → tokenizer → pixels                             (prediction)
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import padded
from regard.data.check_report import CheckReport
from regard.data.examples import Example, ExampleBatches
from regard.data.tables import Role
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError, RegardError
from regard.inputs.image.store import PictureExamples
from regard.inputs.text.input import TextInput, TextItem
from regard.look.case import Case
from regard.models.drawer import DrawBatch, Drawer
from regard.outputs.base import LookOptions, Output, Told
from regard.outputs.batched import device_of
from regard.outputs.picture import scores as picture_scores
from regard.outputs.picture.build import CaptionedPictures, build_drawer
from regard.outputs.picture.drawing import AT_ONCE, Drawn, candidates, codes_of, painted, rebuilt, similarity
from regard.outputs.picture.looking import drawing_case
from regard.outputs.picture.result import Drawing
from regard.outputs.picture.settings import DrawRecipe
from regard.outputs.result import Candidate, Picture, Prediction, Scores
from regard.special_tokens import END, PAD, UNK

SIDE_BY_SIDE = 3  # drawings of one sentence in the report


@dataclass(frozen=True)
class StagedBatches:
    """Captions with their pictures. Epochs of both stages are alike: every caption once."""

    captions: ExampleBatches
    first: int  # epochs of the tokenizer

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[DrawBatch]:
        for batch in self.captions.epoch(number, start, rank, world):
            yield DrawBatch(batch.source, batch.target, number < self.first)

    def len_epoch(self, number: int) -> int:
        return self.captions.len_epoch(number)


class PictureOutput(Output[DrawRecipe, TextInput, Drawer]):
    gives: ClassVar[str] = "a picture"
    unit: ClassVar[str] = "regions"
    takes_files: ClassVar[bool] = True
    draws: ClassVar[bool] = True

    def __init__(self, recipe: DrawRecipe, input: TextInput) -> None:
        super().__init__(recipe, input)
        self.captioned = CaptionedPictures(recipe)

    @property
    def has_test_data(self) -> bool:
        return self.captioned.has_test_data

    def with_recipe(self, recipe: DrawRecipe, input: TextInput) -> "PictureOutput":
        changed = super().with_recipe(recipe, input)
        changed.captioned = self.captioned.with_recipe(recipe)
        return changed

    # -------------------------------------------------------------------------------------------------------- targets
    def learn(self, texts: Iterable[str]) -> Tokenizer:
        """The words of sentences; the codes of pictures come with the model."""
        return self.input.learn(texts)

    @property
    def vocabulary(self) -> Tokenizer:
        return self.input.tokenizer

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        return padded(targets) if len(targets) else torch.full((1, 1), PAD)

    # ------------------------------------------------------------------------------------------------------- training
    def prepare(self, cache: Path, *, strict: bool = True) -> dict[Role, Any]:
        return self.captioned.prepare(cache, self, strict=strict)

    def check(self, splits: dict[Role, Any]) -> CheckReport:
        return self.captioned.check(splits, self.vocabulary)

    def batches(self, split: PictureExamples, max_tokens: int, *, seed: int = 0) -> StagedBatches:
        if not len(split):
            raise RegardError(f"{split.name}: every caption is longer than data.max_length={self._longest}")
        captions = ExampleBatches(split, self.collate, max_tokens, seed=seed, ahead=self.captioned.ahead)
        return StagedBatches(captions, self.recipe.model.tokenizer.epochs)

    def build(self) -> Drawer:
        return build_drawer(self.recipe, self.vocabulary.size, self.captioned.train)

    def validate(self, model: Drawer, valid: PictureExamples) -> dict[str, float]:
        """`loss` is the sum of what regions cost and what tokens lose, so that it falls in both stages."""
        costs = picture_scores.costs(model, self.batches(valid, self.recipe.training.max_tokens).epoch(0))
        return {"loss": costs["region_loss"] + costs["reconstruction"], **costs}

    def some(self, valid: PictureExamples, most: int) -> list[Example]:
        return self._asked(valid.examples(most))

    def reference(self, example: Example) -> Any:
        return example.gold

    def sample(self, model: Drawer, example: Example) -> str:
        """What was drawn for a validation sentence, as its codes."""
        ((drawn,),) = self._candidates(model, [example.input], 1)
        return f"{example.input}\n→ {_as_text(drawn.codes)}"

    def pictures(self, model: Drawer, valid: PictureExamples) -> list[Picture]:
        """Validation pictures, what tokens keep of them, and what is drawn for their sentences."""
        examples = self.some(valid, picture_scores.SHOWN)
        sentences, true = [example.input for example in examples], _pixels(examples)
        found = self._candidates(model, sentences, SIDE_BY_SIDE)
        drawn = [painted(model, [row[number].codes for row in found]) for number in range(SIDE_BY_SIDE)]
        return picture_scores.page(sentences, true, rebuilt(model, true), drawn)

    def _asked(self, examples: Sequence[Example]) -> list[Example]:
        """A sentence for each picture, one after the other of those that it has; `gold` is the picture itself."""
        found = []
        for number, (picture, texts, _) in enumerate(examples):
            fitting = [text for text in texts if len(self.vocabulary.encode(text)) < self._longest]
            if fitting:
                found.append(Example(fitting[number % len(fitting)], (), picture.pixels))
        return found

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: Drawer, inputs: Sequence[str]) -> list[Prediction]:
        found: list[Prediction] = []
        for text, ranked in zip(inputs, self._ranked(model, inputs), strict=True):
            best = ranked[: self.recipe.decoding.n_best]
            outputs = [Candidate(_as_text(one.codes), one.log_probability, score) for score, one in best]
            pictures = painted(model, [one.codes for _, one in best]).permute(0, 2, 3, 1).numpy()
            found.append(Drawing(text, outputs, None, tuple(pictures), tuple(self._unknown(text))))
        return found

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
        prompts = [model.prompt(self.input.collate([self._read(text)]))[0].tolist() for text in texts]
        return candidates(model, prompts, self.recipe.decoding, each)

    def _read(self, text: str) -> TextItem:
        """A sentence that can be drawn."""
        item, most = self.input.read(text), self._longest - 1
        if not item.ids:
            raise CallError("the sentence is empty: say what is to be drawn")
        if len(item.ids) > most:
            raise CallError(f"the sentence has {len(item.ids)} tokens, and this model reads {most}: {text[:60]!r}...")
        if all(token == UNK for token in item.ids):
            raise CallError(f"the model knows no word of {text!r}: there is nothing it could draw")
        return item

    def _unknown(self, text: str) -> list[str]:
        pairs = zip(self.vocabulary.encode(text), self.vocabulary.spans(text), strict=True)
        return [text[span.start : span.end] for token, span in pairs if token == UNK]

    @property
    def _longest(self) -> int:
        """Most tokens of a sentence, its end included."""
        return self.recipe.data.max_length

    def score(self, model: Drawer, inputs: Sequence[str], outputs: Sequence[Any]) -> list[Prediction]:
        """log p(picture | sentence) of given pictures: a `Path`, an array, or what Pillow has opened."""
        found = []
        for text, codes in zip(inputs, self._codes(model, outputs), strict=True):
            total = self._log_probability(model, text, codes)
            found.append(Prediction(text, [Candidate(_as_text(codes), total)]))
        return found

    @torch.inference_mode()
    def _log_probability(self, model: Drawer, text: str, codes: Int[Tensor, " K"]) -> float:
        device = device_of(model)
        return float(model.scores(self.input.collate([self._read(text)]).to(device), codes[None].to(device)).sum())

    def given(self, words: Sequence[str]) -> list[Path]:
        return [Path(word) for word in words]

    def _codes(self, model: Drawer, pictures: Sequence[Any]) -> Int[Tensor, "B K"]:
        """Of given pictures. A text is never taken for the name of a file: it may come from anybody."""
        if any(isinstance(one, str) for one in pictures):
            raise CallError("a text is no picture: give a pathlib.Path, an array, or what Pillow has opened")
        return codes_of(model, torch.stack([self.captioned.read(one).pixels for one in pictures]))

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Drawer, one: str, options: LookOptions) -> list[Told]:
        """The model's own drawings, or a given picture."""
        if options.output is None:
            (ranked,) = self._ranked(model, [one])
            return [Told(drawn.codes, "", score) for score, drawn in ranked[: self.recipe.decoding.n_best]]
        (codes,) = self._codes(model, [options.output])
        return [Told(codes, "", self._log_probability(model, one, codes))]

    def case(self, model: Drawer, one: str, told: Told) -> Case:
        return drawing_case(model, self.input, self._read(one), told.target)

    # ------------------------------------------------------------------------------------------------------ evaluation
    def test(self) -> tuple[list[Example], str]:
        return self.captioned.test()

    def test_scores(self, model: Drawer, examples: Sequence[Example], alignments: bool) -> Scores:
        """What regions cost and tokens keep; on corpus:shapes, what drawings show; with a reranker, how they fit."""
        data, rerank = self.recipe.data, self.recipe.decoding.rerank
        values = picture_scores.costs(model, self._in_groups(examples))
        values |= {"bits_per_region": values["region_loss"] / float(np.log(2)), "pictures": float(len(examples))}
        details, pictures = {}, []
        shapes = picture_scores.is_shapes(data.test or data.train)
        if shapes or rerank:
            asked = self._asked(examples[: picture_scores.MOST])
            sentences, true = [example.input for example in asked], _pixels(asked)
            drawn = painted(model, [ranked[0][1].codes for ranked in self._ranked(model, sentences)])
            kept = rebuilt(model, true)
            pictures = picture_scores.page(sentences, true, kept, [drawn])
            if shapes:
                found, details = picture_scores.shown_right(sentences, drawn, true, kept)
                values |= found
            if rerank:
                fit = partial(similarity, rerank, device=device_of(model))
                values |= picture_scores.similarities(sentences, drawn, true, fit)
        return Scores(values, {}, details, pictures, percent=[name for name in values if name.startswith("right")])

    def _in_groups(self, examples: Sequence[Example]) -> Iterator[DrawBatch]:
        """Every picture with every sentence of it that is not too long."""
        texts = [self.vocabulary.encode_batch(list(example.texts)) for example in examples]
        pairs = [
            (example, np.array([*ids, END]))
            for example, of_picture in zip(examples, texts, strict=True)
            for ids in of_picture
            if len(ids) < self._longest
        ]
        for start in range(0, len(pairs), AT_ONCE):
            some, ids = zip(*pairs[start : start + AT_ONCE], strict=True)
            pixels = np.stack([example.input.pixels for example in some])
            yield DrawBatch(_channels_first(pixels), self.collate(ids), tokenizing=False)


def _pixels(asked: Sequence[Example]) -> Tensor:
    return _channels_first(np.stack([example.gold for example in asked]))


def _channels_first(pictures: np.ndarray) -> Tensor:
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).contiguous()


def _as_text(codes: Int[Tensor, " K"]) -> str:
    return " ".join(map(str, codes.tolist()))
