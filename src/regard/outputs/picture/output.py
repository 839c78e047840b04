"""Picture output: a picture is a grid of tokens, which a language model generates after those of the sentence.

pictures → stores → batches → tokenizer → pixels again → loss                              (training, first stage)
text, picture → token ids → decoder → loss                                                 (training, second stage)
text → token ids → decoder → draw → codes → tokenizer → pixels                             (prediction)
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int

from regard.data.examples import Example
from regard.errors import CallError
from regard.inputs.media_store import MediaExamples
from regard.inputs.text.input import TextItem
from regard.look.case import Case
from regard.models.drawer import Drawer
from regard.outputs.base import LookOptions, Told
from regard.outputs.batched import device_of
from regard.outputs.picture import codes, drawing
from regard.outputs.picture import scores as picture_scores
from regard.outputs.picture.codes import NO_PICTURE, Codes, Drawn, as_text, candidates, drawable, film
from regard.outputs.picture.looking import drawing_case
from regard.outputs.picture.training import PictureTraining
from regard.outputs.result import Candidate, Picture, Prediction, Scores

SIDE_BY_SIDE = 3  # drawings per sentence in the report


class PictureOutput(PictureTraining):
    takes_files: ClassVar[bool] = True
    draws: ClassVar[bool] = True

    def sample(self, model: Drawer, example: Example) -> str:
        """Return the codes drawn for a validation sentence, as text."""
        ((drawn,),) = self._candidates(model, [example.input], 1)
        return f"{example.input}\n→ {as_text(drawn.codes)}"

    def pictures(self, model: Drawer, valid: MediaExamples) -> list[Picture]:
        """Return validation pictures, their reconstruction from tokens, and the drawings for their sentences."""
        examples = self.some(valid, picture_scores.SHOWN)
        found = self._candidates(model, [example.input for example in examples], SIDE_BY_SIDE)
        drawn = [drawing.painted(model, [row[number].codes for row in found]) for number in range(SIDE_BY_SIDE)]
        return picture_scores.Drawings.of(examples, drawing.rebuilt(model), drawn).page("Validation data")

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(self, model: Drawer, inputs: Sequence[str]) -> list[Prediction]:
        most, paint = self.recipe.decoding.n_best, drawing.painter(model)
        found = zip(inputs, self._ranked(model, inputs), strict=True)
        return [codes.drawing(text, in_order[:most], paint, self.vocabulary) for text, in_order in found]

    def _ranked(self, model: Drawer, texts: Sequence[str]) -> list[list[tuple[float, Drawn]]]:
        how = self.recipe.decoding
        drawn = self._candidates(model, texts, max(how.candidates, how.n_best))
        return [drawing.ranked(model, text, some, how.rerank) for text, some in zip(texts, drawn, strict=True)]

    def _candidates(self, model: Drawer, texts: Sequence[str], each: int) -> list[list[Drawn]]:
        prompts = [model.prompt(self.input.collate([self._read(text)]))[0].tolist() for text in texts]
        return candidates(drawing.writer(model, self.recipe.decoding), prompts, each, model.words)

    def _read(self, text: str) -> TextItem:
        return drawable(self.input, text, self.longest - 1)

    def given_candidates(self, model: Drawer, inputs: Sequence[str], outputs: Sequence[Any]) -> list[Candidate]:
        """Return log p(picture | sentence) of given pictures: a `Path`, an array or a Pillow image."""
        found = zip(inputs, self._codes(model, outputs), strict=True)
        return [Candidate(as_text(drawn), self._log_probability(model, text, drawn)) for text, drawn in found]

    @torch.inference_mode()
    def _log_probability(self, model: Drawer, text: str, drawn: Codes) -> float:
        asked = self.input.collate([self._read(text)]), torch.from_numpy(drawn[None])
        return float(model.scores(*(one.to(device_of(model)) for one in asked)).sum())

    def given(self, words: Sequence[str]) -> list[Path]:
        return [Path(word) for word in words]

    def _codes(self, model: Drawer, pictures: Sequence[Any]) -> Int[np.ndarray, "B K"]:
        """Return the codes of given pictures. A text is never taken as a file name, since it may come from an
        untrusted user.
        """
        if any(isinstance(one, str) for one in pictures):
            raise CallError(NO_PICTURE)
        return drawing.codes_of(model, torch.stack([self.captioned.read(one).pixels for one in pictures]))

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Drawer, one: str, options: LookOptions) -> list[Told]:
        """Return the predicted drawings, or the given picture."""
        if options.output is None:
            best = self._ranked(model, [one])[0][: self.recipe.decoding.n_best]
        else:
            (given,) = self._codes(model, [options.output])
            score = self._log_probability(model, one, given)
            best = [(score, Drawn(given, score))]
        paint, grid = drawing.painter(model), model.tokenizer.grid
        return [Told(drawn.codes, "", score, film(paint, drawn.codes, grid)) for score, drawn in best]

    def again(self, model: Drawer, told: Told, one: str) -> Told:
        return told

    def case(self, model: Drawer, one: str, told: Told) -> Case:
        return drawing_case(model, self.input, self._read(one), told.target)

    def test_scores(self, model: Drawer, examples: Sequence[Example], alignments: bool) -> Scores:
        """Return loss and reconstruction error; on corpus:shapes, correct drawings; with a reranker, similarity."""
        data, rerank = self.recipe.data, self.recipe.decoding.rerank
        costs = picture_scores.costs(model, self.all_captions(examples))
        shapes = picture_scores.is_shapes(data.test or data.train)
        if not shapes and rerank is None:
            return picture_scores.scores(costs, len(examples))
        asked = self.with_sentence(examples[: picture_scores.MOST])
        best = [found[0][1].codes for found in self._ranked(model, [example.input for example in asked])]
        fit = None if rerank is None else partial(drawing.similarity, rerank, device=device_of(model))
        shown = picture_scores.Drawings.of(asked, drawing.rebuilt(model), [drawing.painted(model, best)])
        return picture_scores.scores(costs, len(examples), shown, shapes, fit)
