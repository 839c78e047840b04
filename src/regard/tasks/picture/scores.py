"""Scores of drawing: the loss and reconstruction of tokens; on `corpus:shapes`, what the pictures show.

loss             −log p of a region's code, given the sentence and the regions before (bits_per_region: in bits)
reconstruction   mean squared error of pixels reconstructed from tokens, as a share of the pixels' variance
codes_used       exp of the entropy of the codes: the effective number of codes in use
right            drawings in which all shapes, colors and relations match the sentence (percent,
                 by `corpora.shapes_seen`, from pixels); right_things: shapes and colors only
right_true, right_tokens, right_shuffled    the same of the true pictures (the ceiling), of those after their way
                 through tokens, and of the drawings beside sentences that they were not drawn for (the chance)
similarity       cosine of a drawing and its sentence under the run that reranks; _true: of the true pictures;
                 _shuffled: of drawings and other sentences
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.corpora import PREFIX
from regard.corpora.shapes_seen import detect_things, judge_scene, parse_caption
from regard.data.examples import Example
from regard.models.drawer import DrawBatch, TextToImage, use
from regard.tasks.picture.codes import as_html, sheet
from regard.tasks.picture.drawing import channels_first
from regard.tasks.result import ReportPicture, Scores

MOST = 500  # sentences to draw
SHOWN = 6  # drawings on the page
Similarity = Callable[[Tensor, Sequence[str]], Tensor]  # pictures × texts


@torch.inference_mode()
def costs(model: TextToImage, batches: Iterator[DrawBatch]) -> dict[str, float]:
    """Return the mean loss of all regions of all captions."""
    device = next(model.parameters()).device
    nats = regions = error = pixels = 0.0
    codes: list[Tensor] = []
    for batch in batches:
        batch = batch.to(device)
        made = model.tokenizer(batch.pixels)
        scores = model.scores(batch.text, made.codes)
        nats, regions = nats - float(scores.sum()), regions + scores.numel()
        error, pixels = error + float(made.error.sum()), pixels + batch.pixels.numel()
        codes.append(made.codes.flatten())
    loss, reconstruction = nats / max(1, regions), error / max(1, pixels)
    used = float(use(torch.cat(codes), len(model.tokenizer.codebook.table))) if codes else 0.0
    return {"region_loss": loss, "reconstruction": reconstruction, "codes_used": used}


def is_shapes(where: str) -> bool:
    return where.startswith(f"{PREFIX}shapes")


@dataclass(frozen=True)
class Drawings:
    """Drawings for sentences, with the true pictures and their reconstructions: each B C H W, uint8."""

    sentences: list[str]
    true: Tensor
    kept: Tensor
    drawn: Sequence[Tensor]  # the best drawing of each sentence

    @classmethod
    def of(
        cls, examples: Sequence[Example], rebuilt: Callable[[Tensor], Tensor], drawn: Sequence[Tensor]
    ) -> "Drawings":
        true = channels_first([example.gold for example in examples])
        return cls([example.input for example in examples], true, rebuilt(true), drawn)

    def shown_right(self) -> tuple[dict[str, float], dict[str, list[dict[str, Any]]]]:
        """Return the scores in percent, and by the number of things in a sentence."""
        scenes = [parse_caption(sentence) for sentence in self.sentences]
        things, right = np.array(_verdicts(scenes, self.drawn[0])).T
        others = [*scenes[1:], *scenes[:1]]
        values = {
            "right": right, "right_things": things,
            "right_true": [one[1] for one in _verdicts(scenes, self.true)],
            "right_tokens": [one[1] for one in _verdicts(scenes, self.kept)],
            "right_shuffled": [one[1] for one in _verdicts(others, self.drawn[0])],
        }  # fmt: skip
        sizes = np.array([len(scene.things) for scene in scenes])
        rows = [
            {"things": int(n), "sentences": int((sizes == n).sum()), "right": 100 * float(right[sizes == n].mean())}
            for n in np.unique(sizes)
        ]
        return {name: 100 * float(np.mean(found)) for name, found in values.items()}, {"by number of things": rows}

    def similarities(self, similarity: Similarity) -> dict[str, float]:
        table = similarity(self.drawn[0], self.sentences)
        return {
            "similarity": float(table.diagonal().mean()),
            "similarity_true": float(similarity(self.true, self.sentences).diagonal().mean()),
            "similarity_shuffled": float(table.roll(1, 0).diagonal().mean()),
        }

    def page(self, data: str) -> list[ReportPicture]:
        """Return the true picture, its reconstruction, and the drawing; `data` names the part of the data."""
        note = f"{data}. From left to right: the picture; its reconstruction from tokens; the drawing of the sentence."
        found = []
        for number, sentence in enumerate(self.sentences[:SHOWN]):
            row = [one[number].permute(1, 2, 0).numpy() for one in (self.true, self.kept, *self.drawn)]
            found.append(ReportPicture(sentence, as_html(sheet([row]), "pictures"), note))
        return found


def scores(
    costs: dict[str, float], pictures: int, shown: Drawings | None = None, shapes: bool = False,
    similarity: Similarity | None = None,
) -> Scores:  # fmt: skip
    """Return the scores of `pictures` pictures; `shapes`: they are from corpus:shapes, whose sentences can be
    checked.
    """
    values, details = (
        {**costs, "bits_per_region": costs["region_loss"] / float(np.log(2)), "pictures": float(pictures)},
        {},
    )
    if shown is not None and shapes:
        right, details = shown.shown_right()
        values |= right
    if shown is not None and similarity is not None:
        values |= shown.similarities(similarity)
    percent = [name for name in values if name.startswith("right")]
    return Scores(values, {}, details, [] if shown is None else shown.page("Test data"), percent=percent)


def _verdicts(scenes: Sequence[Any], pictures: Tensor) -> list[tuple[bool, bool]]:
    return [
        judge_scene(scene, detect_things(picture.permute(1, 2, 0).numpy()))
        for scene, picture in zip(scenes, pictures, strict=True)
    ]
