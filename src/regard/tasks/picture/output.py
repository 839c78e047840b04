"""Picture output: a picture is a grid of tokens, which a language model generates after those of the sentence.

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

from regard.data.batches import pad_rows
from regard.data.check_report import CheckReport
from regard.data.examples import Example, ExampleBatches
from regard.data.tables import Role
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError, RegardError
from regard.inputs.media import MediaExamples
from regard.inputs.text.input import TextInput, TextItem
from regard.look.case import ExplainTarget
from regard.models.drawer import DrawBatch, TextToImage
from regard.settings.recipe import Decision
from regard.special_tokens import END, PAD
from regard.tasks.base import LookOptions, Output, OutputRef
from regard.tasks.batched import case_of, device_of
from regard.tasks.picture import codes, drawing
from regard.tasks.picture import scores as picture_scores
from regard.tasks.picture.codes import (
    AT_ONCE,
    NO_PICTURE,
    Codes,
    Drawn,
    as_text,
    axes_of,
    candidates,
    drawable,
    film,
    words_and_regions,
)
from regard.tasks.picture.drawing import CaptionedPictures, build_drawer, channels_first, painter
from regard.tasks.picture.settings import DrawRecipe
from regard.tasks.result import Candidate, Prediction, ReportPicture, Scores

# Two-stage training of drawing: the tokenizer of pictures, then the decoder that generates its tokens after words.


@dataclass(frozen=True)
class StagedBatches:
    """Captions with their pictures. An epoch of both stages has every caption once."""

    captions: ExampleBatches
    first: int  # epochs of the tokenizer

    def epoch(self, number: int, start: int = 0, rank: int = 0, world: int = 1) -> Iterator[DrawBatch]:
        for batch in self.captions.epoch(number, start, rank, world):
            yield DrawBatch(batch.source, batch.target, number < self.first)

    def len_epoch(self, number: int) -> int:
        return self.captions.len_epoch(number)


class PictureTraining(Output[DrawRecipe, TextInput, TextToImage]):
    gives: ClassVar[str] = "a picture"
    unit: ClassVar[str] = "regions"

    def __init__(self, recipe: DrawRecipe, input: TextInput) -> None:
        super().__init__(recipe, input)
        self.captioned = CaptionedPictures(recipe)

    def auto_settings(self) -> list[Decision]:
        return self.captioned.auto_settings()

    @property
    def is_sampling(self) -> bool:
        return self.recipe.decoding.temperature > 0

    @property
    def has_test_data(self) -> bool:
        return self.captioned.has_test_data

    def with_recipe(self, recipe: DrawRecipe, input: TextInput) -> Any:
        changed = super().with_recipe(recipe, input)
        changed.captioned = self.captioned.with_recipe(recipe)
        return changed

    def learn(self, texts: Iterable[str]) -> Tokenizer:
        """Learn the words of sentences; the codes of pictures are part of the model."""
        return self.input.learn(texts)

    @property
    def vocabulary(self) -> Tokenizer:
        return self.input.tokenizer

    def collate(self, targets: Sequence[NDArray[Any]]) -> Tensor:
        return pad_rows(targets) if len(targets) else torch.full((1, 1), PAD)

    def prepare(self, cache: Path, *, strict: bool = True) -> dict[Role, Any]:
        return self.captioned.prepare(cache, self, strict=strict)

    def check(self, splits: dict[Role, Any]) -> CheckReport:
        return self.captioned.check(splits, self.vocabulary)

    def batches(self, split: MediaExamples, max_tokens: int, *, seed: int = 0) -> StagedBatches:
        if not len(split):
            raise RegardError(f"{split.name}: every caption is longer than data.max_length={self.longest}; raise it")
        captions = ExampleBatches(split, self.collate, max_tokens, seed=seed, ahead=self.captioned.ahead)
        return StagedBatches(captions, self.recipe.model.tokenizer.epochs)

    def build(self) -> TextToImage:
        return build_drawer(self.recipe, self.vocabulary.size, self.captioned.train)

    def validate(self, model: TextToImage, valid: MediaExamples) -> dict[str, float]:
        """Return scores; `loss` is the sum of the losses of regions and reconstruction, so that it falls in both
        stages.
        """
        costs = picture_scores.costs(model, self.scored_batches(valid).epoch(0))
        return {"loss": costs["region_loss"] + costs["reconstruction"], **costs}

    def sample_examples(self, valid: MediaExamples, most: int) -> list[Example]:
        return self.with_sentence(valid.examples(most))

    def reference(self, example: Example) -> Any:
        return example.gold

    def with_sentence(self, examples: Sequence[Example]) -> list[Example]:
        """Return a sentence for each picture, its captions in turn; `gold` is the picture."""
        found = []
        for number, (picture, texts, _) in enumerate(examples):
            fitting = [text for text in texts if len(self.vocabulary.encode(text)) < self.longest]
            fitting = fitting or [self._cut(texts[0])]
            found.append(Example(fitting[number % len(fitting)], (), picture.pixels))
        return found

    @property
    def limit(self) -> str:
        return f"data.max_length={self.longest} tokens: only their beginning is read"

    def is_overlong(self, example: Example) -> bool:
        return any(len(self.vocabulary.encode(text)) >= self.longest for text in example.texts)

    def _cut(self, text: str) -> str:
        """Return the first words of a sentence, as many as the model reads."""
        words = text.split()
        while len(words) > 1 and len(self.vocabulary.encode(" ".join(words))) >= self.longest:
            words.pop()
        return " ".join(words)

    @property
    def longest(self) -> int:
        """Return the maximum tokens of a sentence, including the end token."""
        return self.recipe.data.max_length

    def all_captions(self, examples: Sequence[Example]) -> Iterator[DrawBatch]:
        """Yield every picture with every one of its sentences; longer ones are truncated."""
        texts = [self.vocabulary.encode_batch(list(example.texts)) for example in examples]
        pairs = [
            (example, np.array([*ids[: self.longest - 1], END]))
            for example, of_picture in zip(examples, texts, strict=True)
            for ids in of_picture
        ]
        for start in range(0, len(pairs), AT_ONCE):
            some, ids = zip(*pairs[start : start + AT_ONCE], strict=True)
            pixels = [example.input.pixels for example in some]
            yield DrawBatch(channels_first(pixels), self.collate(ids), tokenizing=False)

    def test(self) -> tuple[list[Example], str]:
        return self.captioned.test()


# Attention of a drawing model: the words from which each region of the picture was drawn.
#
# The picture's tokens are forced through the decoder, so recording does not change drawing. Each layer and head has
# two tables:
#
#     cross     how much each region, when it was drawn, looked at each token of the sentence; shown transposed, a row
#     a
#               token, so that a word can be laid over the picture. Columns sum to the region's weight on the sentence
#     decoder   a row a region: how much it looked at the regions drawn before it


def drawing_case(model: TextToImage, input: TextInput, item: TextItem, codes: Codes) -> ExplainTarget:
    """Return the case of a sentence and the picture of these codes. An occluded word is removed from the input."""
    (picture,) = painter(model)(codes[None], None)
    parts = [place + 1 for place in input.parts(item)]
    return case_of(
        input, model, model.writer.decoder, item, model.scores, axes_of(input, item, picture, model.tokenizer.grid),
        target=torch.from_numpy(codes[None]), parts=parts,
        gather=lambda found: np.concatenate(found).sum(-1)[:, parts],
        place=words_and_regions(model.text_length), turned=True, offset=model.text_length,
    )  # fmt: skip


SIDE_BY_SIDE = 3  # drawings per sentence in the report


class PictureOutput(PictureTraining):
    takes_files: ClassVar[bool] = True
    draws: ClassVar[bool] = True

    def sample(self, model: TextToImage, example: Example) -> str:
        """Return the codes drawn for a validation sentence, as text."""
        ((drawn,),) = self._candidates(model, [example.input], 1)
        return f"{example.input}\n→ {as_text(drawn.codes)}"

    def pictures(self, model: TextToImage, valid: MediaExamples) -> list[ReportPicture]:
        """Return validation pictures, their reconstruction from tokens, and the drawings for their sentences."""
        examples = self.sample_examples(valid, picture_scores.SHOWN)
        found = self._candidates(model, [example.input for example in examples], SIDE_BY_SIDE)
        drawn = [drawing.paint_drawings(model, [row[number].codes for row in found]) for number in range(SIDE_BY_SIDE)]
        return picture_scores.Drawings.of(examples, drawing.rebuilt(model), drawn).page("Validation data")

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: TextToImage, inputs: Sequence[str]) -> list[Prediction]:
        most, paint = self.recipe.decoding.n_best, drawing.painter(model)
        found = zip(inputs, self._rank(model, inputs), strict=True)
        return [codes.drawing(text, in_order[:most], paint, self.vocabulary) for text, in_order in found]

    def _rank(self, model: TextToImage, texts: Sequence[str]) -> list[list[tuple[float, Drawn]]]:
        how = self.recipe.decoding
        drawn = self._candidates(model, texts, max(how.candidates, how.n_best))
        return [drawing.rank_drawings(model, text, some, how.rerank) for text, some in zip(texts, drawn, strict=True)]

    def _candidates(self, model: TextToImage, texts: Sequence[str], each: int) -> list[list[Drawn]]:
        prompts = [model.prompt(self.input.collate([self._read(text)]))[0].tolist() for text in texts]
        return candidates(drawing.writer(model, self.recipe.decoding), prompts, each, model.words)

    def _read(self, text: str) -> TextItem:
        return drawable(self.input, text, self.longest - 1)

    def score_outputs(self, model: TextToImage, inputs: Sequence[str], outputs: Sequence[Any]) -> list[Candidate]:
        """Return log p(picture | sentence) of given pictures: a `Path`, an array or a Pillow image."""
        found = zip(inputs, self._codes(model, outputs), strict=True)
        return [Candidate(as_text(drawn), self._log_probability(model, text, drawn)) for text, drawn in found]

    @torch.inference_mode()
    def _log_probability(self, model: TextToImage, text: str, drawn: Codes) -> float:
        asked = self.input.collate([self._read(text)]), torch.from_numpy(drawn[None])
        return float(model.scores(*(one.to(device_of(model)) for one in asked)).sum())

    def given(self, words: Sequence[str]) -> list[Path]:
        return [Path(word) for word in words]

    def _codes(self, model: TextToImage, pictures: Sequence[Any]) -> Int[np.ndarray, "B K"]:
        """Return the codes of given pictures. A text is never taken as a file name, since it may come from an
        untrusted user.
        """
        if any(isinstance(one, str) for one in pictures):
            raise CallError(NO_PICTURE)
        return drawing.codes_of(model, torch.stack([self.captioned.read(one).pixels for one in pictures]))

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: TextToImage, one: str, options: LookOptions) -> list[OutputRef]:
        """Return the predicted drawings, or the given picture."""
        if options.output is None:
            best = self._rank(model, [one])[0][: self.recipe.decoding.n_best]
        else:
            (given,) = self._codes(model, [options.output])
            score = self._log_probability(model, one, given)
            best = [(score, Drawn(given, score))]
        paint, grid = drawing.painter(model), model.tokenizer.grid
        return [OutputRef(drawn.codes, "", score, film(paint, drawn.codes, grid)) for score, drawn in best]

    def rescore(self, model: TextToImage, ref: OutputRef, one: str) -> OutputRef:
        return ref

    def case(self, model: TextToImage, one: str, ref: OutputRef) -> ExplainTarget:
        return drawing_case(model, self.input, self._read(one), ref.target)

    def test_scores(self, model: TextToImage, examples: Sequence[Example], alignments: bool) -> Scores:
        """Return loss and reconstruction error; on corpus:shapes, correct drawings; with a reranker, similarity."""
        data, rerank = self.recipe.data, self.recipe.decoding.rerank
        costs = picture_scores.costs(model, self.all_captions(examples))
        shapes = picture_scores.is_shapes(data.test or data.train)
        if not shapes and rerank is None:
            return picture_scores.scores(costs, len(examples))
        asked = self.with_sentence(examples[: picture_scores.MOST])
        best = [found[0][1].codes for found in self._rank(model, [example.input for example in asked])]
        fit = None if rerank is None else partial(drawing.similarity, rerank, device=device_of(model))
        shown = picture_scores.Drawings.of(asked, drawing.rebuilt(model), [drawing.paint_drawings(model, best)])
        return picture_scores.scores(costs, len(examples), shown, shapes, fit)
