"""The torch backend of drawing: generates codes, paints them, encodes given pictures, and ranks several drawings by
how well they fit the sentence.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from regard.decoding.continuing import Sampling, continued
from regard.models.drawer import Drawer
from regard.other_run import load_other_run
from regard.outputs.batched import device_of
from regard.outputs.picture import codes
from regard.outputs.picture.codes import AT_ONCE, Codes, Drawn, Paint, Write
from regard.outputs.picture.settings import DrawingSettings


def channels_first(pictures: Sequence[np.ndarray]) -> UInt8[Tensor, "B C H W"]:
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous()


def writer(model: Drawer, how: DrawingSettings) -> Write:
    def write(prompts: Sequence[list[int]]) -> Any:
        return continued(
            model.writer, prompts, Sampling(how.temperature, how.top_k, how.top_p, seed=how.seed),
            context=model.text_length + 1 + model.regions, max_length=model.regions, end=None,
            forbidden=range(model.words), device=device_of(model),
        )  # fmt: skip

    return write


def painter(model: Drawer) -> Paint:
    @torch.inference_mode()
    def paint(some: np.ndarray, drawn: np.ndarray | None) -> np.ndarray:
        given = [torch.from_numpy(one).to(device_of(model)) for one in (some, drawn) if one is not None]
        return model.tokenizer.pictures(*given).permute(0, 2, 3, 1).cpu().numpy()

    return paint


def ranked(model: Drawer, text: str, drawn: Sequence[Drawn], judge: str | None) -> list[tuple[float, Drawn]]:
    """Sort the drawings of a sentence, best first, with their scores: log p, or the similarity under the
    `judge` run.
    """
    scores = [one.log_probability for one in drawn]
    if judge is not None:
        pictures = painted(model, [one.codes for one in drawn])
        scores = similarity(judge, pictures, [text], device_of(model))[:, 0].tolist()
    return codes.ranked(scores, drawn)


def painted(model: Drawer, some: Sequence[Codes]) -> UInt8[Tensor, "B C H W"]:
    return channels_first(list(codes.painted(painter(model), some)))


@torch.inference_mode()
def codes_of(model: Drawer, pixels: UInt8[Tensor, "B C H W"]) -> Int[np.ndarray, "B K"]:
    groups = pixels.split(AT_ONCE)
    return torch.cat([model.tokenizer.codes(group.to(device_of(model))).cpu() for group in groups]).numpy()


def rebuilt(model: Drawer) -> Callable[[Tensor], Tensor]:
    """Return a function that encodes pictures into tokens and decodes them again."""
    return lambda pixels: painted(model, list(codes_of(model, pixels)))


def similarity(run: str, pictures: UInt8[Tensor, "B C H W"], texts: Sequence[str], device: torch.device) -> Tensor:
    """Return the cosines (B × texts) of pictures and texts under a run of the job `match`.

    DALL·E draws 512 pictures for a sentence and shows those that CLIP ranks best (Ramesh et al. 2021, section 2.6,
    arXiv:2102.12092).
    """
    job, judge = load_other_run("decoding.rerank", run, "match", device)
    arrays = [picture.permute(1, 2, 0).squeeze(2).numpy() for picture in pictures]
    return job.output.similarity(judge, arrays, texts).cpu()
