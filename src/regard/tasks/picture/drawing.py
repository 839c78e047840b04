"""The torch backend of drawing: generates codes, paints them, encodes given pictures, and ranks several drawings by
how well they fit the sentence.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from regard.attention.positions import LearnedTextAndGrid
from regard.auxiliary_models import load_auxiliary_model
from regard.generation.sampling import SamplingState, generate
from regard.inputs.image.input import ImageInput, colors
from regard.inputs.image.store import PictureStore
from regard.models.drawer import PictureTokenizer, TextToImage
from regard.models.language_model import LanguageModel
from regard.tasks.batched import device_of
from regard.tasks.picture import codes
from regard.tasks.picture.codes import AT_ONCE, Codes, Drawn, Paint, Write
from regard.tasks.picture.settings import DrawingSettings, DrawRecipe


def channels_first(pictures: Sequence[np.ndarray]) -> UInt8[Tensor, "B C H W"]:
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous()


def writer(model: TextToImage, how: DrawingSettings) -> Write:
    def write(prompts: Sequence[list[int]]) -> Any:
        return generate(
            model.writer, prompts, SamplingState(how.temperature, how.top_k, how.top_p, seed=how.seed),
            context=model.text_length + 1 + model.regions, max_length=model.regions, end=None,
            forbidden=range(model.words), device=device_of(model),
        )  # fmt: skip

    return write


def painter(model: TextToImage) -> Paint:
    @torch.inference_mode()
    def paint(some: np.ndarray, drawn: np.ndarray | None) -> np.ndarray:
        given = [torch.from_numpy(one).to(device_of(model)) for one in (some, drawn) if one is not None]
        return model.tokenizer.pictures(*given).permute(0, 2, 3, 1).cpu().numpy()

    return paint


def rank_drawings(
    model: TextToImage, text: str, drawn: Sequence[Drawn], judge: str | None
) -> list[tuple[float, Drawn]]:
    """Sort the drawings of a sentence, best first, with their scores: log p, or the similarity under the
    `judge` run.
    """
    scores = [one.log_probability for one in drawn]
    if judge is not None:
        pictures = paint_drawings(model, [one.codes for one in drawn])
        scores = similarity(judge, pictures, [text], device_of(model))[:, 0].tolist()
    return codes.rank(scores, drawn)


def paint_drawings(model: TextToImage, some: Sequence[Codes]) -> UInt8[Tensor, "B C H W"]:
    return channels_first(list(codes.paint_codes(painter(model), some)))


@torch.inference_mode()
def codes_of(model: TextToImage, pixels: UInt8[Tensor, "B C H W"]) -> Int[np.ndarray, "B K"]:
    groups = pixels.split(AT_ONCE)
    return torch.cat([model.tokenizer.codes(group.to(device_of(model))).cpu() for group in groups]).numpy()


def rebuilt(model: TextToImage) -> Callable[[Tensor], Tensor]:
    """Return a function that encodes pictures into tokens and decodes them again."""
    return lambda pixels: paint_drawings(model, list(codes_of(model, pixels)))


def similarity(run: str, pictures: UInt8[Tensor, "B C H W"], texts: Sequence[str], device: torch.device) -> Tensor:
    """Return the cosines (B × texts) of pictures and texts under a run of the job `match`.

    DALL·E draws 512 pictures for a sentence and shows those that CLIP ranks best (Ramesh et al. 2021, section 2.6,
    arXiv:2102.12092).
    """
    job, judge = load_auxiliary_model("decoding.rerank", run, "match", device)
    arrays = [picture.permute(1, 2, 0).squeeze(2).numpy() for picture in pictures]
    return job.output.similarity(judge, arrays, texts).cpu()


# The model of a drawing recipe, and its training pictures.


def grid_of(recipe: DrawRecipe) -> tuple[int, int]:
    """Return the rows × columns of regions of a picture."""
    stages = len(recipe.model.tokenizer.stages)
    return recipe.data.height >> stages, recipe.data.width >> stages


def build_drawer(recipe: DrawRecipe, words: int, train: PictureStore | None = None) -> TextToImage:
    """Build the model. `train`: the pictures for mean and deviation; None if the weights include them."""
    s, data = recipe.model, recipe.data
    t, grid = s.tokenizer, grid_of(recipe)
    tokenizer = PictureTokenizer(
        (data.height, data.width), t.stages, t.codes,
        width=t.width, depth=t.depth, channels=data.channels, colors=colors(t, data, train), commitment=t.commitment,
    )  # fmt: skip
    text = data.max_length + 1  # plus <s>
    writer = LanguageModel(
        words + t.codes, s.width, s.heads, s.layers,
        feed_forward=s.feed_forward, positions=LearnedTextAndGrid(s.width, text, grid),
        dropout=s.dropout, attention_dropout=0.0, label_smoothing=s.label_smoothing,
    )  # fmt: skip
    return TextToImage(
        tokenizer, writer,
        words=words, text_length=data.max_length, text_weight=s.text_weight, tokenizer_rate=t.rate,
    )  # fmt: skip


class CaptionedPictures(ImageInput):
    """Training pictures: the files of a captioning dataset, cut into the regions of a drawing."""

    def __init__(self, recipe: DrawRecipe) -> None:
        super().__init__(recipe, lambda recipe: recipe.model.tokenizer)

    @property
    def grid(self) -> tuple[int, int]:
        assert isinstance(self.recipe, DrawRecipe)
        return grid_of(self.recipe)

    @property
    def multiple(self) -> int:
        assert isinstance(self.recipe, DrawRecipe)
        return 2 ** len(self.recipe.model.tokenizer.stages)

    @property
    def train(self) -> PictureStore | None:
        """Return the pictures for mean and deviation; None if the weights include them."""
        return self._train
