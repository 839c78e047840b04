"""From sentences to codes and from codes to pixels, in groups; and which of several drawings fits its sentence best."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Int, UInt8
from torch import Tensor

from regard.data.tokenizer import Tokenizer
from regard.decoding.continuing import Sampling, continued
from regard.errors import CallError
from regard.inputs.text.input import TextInput, TextItem
from regard.look.backdrop import to_png
from regard.look.said import Said
from regard.models.drawer import Drawer
from regard.other_run import load_other_run
from regard.outputs.batched import device_of
from regard.outputs.picture.settings import DrawingSettings
from regard.special_tokens import UNK

AT_ONCE = 64  # pictures that are worked on together
MOST_FRAMES = 64  # of a film


def channels_first(pictures: Sequence[np.ndarray]) -> UInt8[Tensor, "B C H W"]:
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).contiguous()


class Drawn(NamedTuple):
    codes: Int[Tensor, " K"]
    log_probability: float


def drawable(input: TextInput, text: str, most: int) -> TextItem:
    """A sentence of at most so many tokens, of which the model knows some."""
    item = input.read(text)
    if not item.ids:
        raise CallError("the sentence is empty: say what is to be drawn")
    if len(item.ids) > most:
        raise CallError(f"the sentence has {len(item.ids)} tokens, and this model reads {most}: {text[:60]!r}...")
    if all(token == UNK for token in item.ids):
        raise CallError(f"the model knows no word of {text!r}: there is nothing it could draw")
    return item


def unknown_words(tokenizer: Tokenizer, text: str) -> tuple[str, ...]:
    pairs = zip(tokenizer.encode(text), tokenizer.spans(text), strict=True)
    return tuple(text[span.start : span.end] for token, span in pairs if token == UNK)


def candidates(model: Drawer, prompts: Sequence[list[int]], how: DrawingSettings, each: int) -> list[list[Drawn]]:
    """So many drawings for each prompt."""
    asked = [prompt for prompt in prompts for _ in range(each)]
    codes: list[list[int]] = [[] for _ in asked]
    told = [0.0] * len(asked)
    at_once = max(1, AT_ONCE // each) * each  # equal prompts together: each of them draws numbers of its own
    for start in range(0, len(asked), at_once):
        for written in continued(
            model.writer, asked[start : start + at_once],
            Sampling(how.temperature, how.top_k, how.top_p, seed=how.seed),
            context=model.text_length + 1 + model.regions, max_length=model.regions, end=None,
            forbidden=range(model.words), device=device_of(model),
        ):  # fmt: skip
            codes[start + written.row].append(written.token - model.words)
            told[start + written.row] += written.log_probability
    drawn = [Drawn(torch.tensor(one), total) for one, total in zip(codes, told, strict=True)]
    return [drawn[start : start + each] for start in range(0, len(drawn), each)]


def ranked(model: Drawer, text: str, drawn: Sequence[Drawn], judge: str | None) -> list[tuple[float, Drawn]]:
    """The drawings of a sentence, best first, with what they are ranked by: log p, or what the judge, a run, says."""
    scores = [one.log_probability for one in drawn]
    if judge is not None:
        scores = similarity(judge, painted(model, [one.codes for one in drawn]), [text], device_of(model))[
            :, 0
        ].tolist()
    return sorted(zip(scores, drawn, strict=True), key=lambda one: -one[0])


@torch.inference_mode()
def painted(model: Drawer, codes: Sequence[Int[Tensor, " K"]]) -> UInt8[Tensor, "B C H W"]:
    groups = torch.stack(list(codes)).split(AT_ONCE)
    return torch.cat([model.tokenizer.pictures(group.to(device_of(model))).cpu() for group in groups])


@torch.inference_mode()
def film(model: Drawer, codes: Int[Tensor, " K"]) -> Said:
    """The picture as it appears: after each region, or after every few where there are many. What is not drawn yet is
    transparent; what is there is decoded with the mean of all codes ahead of it."""
    high, wide = model.tokenizer.grid
    drawn = torch.arange(1, len(codes) + 1)[:: -(-len(codes) // MOST_FRAMES)]
    drawn = torch.cat([drawn, torch.tensor([len(codes)])]).unique()
    device = device_of(model)
    frames = [
        model.tokenizer.pictures(codes.to(device).expand(len(some), -1), some.to(device)).cpu()
        for some in drawn.split(AT_ONCE)
    ]
    pictures = torch.cat(frames).permute(0, 2, 3, 1).expand(-1, -1, -1, 3)
    there = (torch.arange(len(codes)) < drawn[:, None]).unflatten(1, (high, wide))
    seen = F.interpolate(255.0 * there[:, None], pictures.shape[1:3]).to(torch.uint8).permute(0, 2, 3, 1)
    shown = torch.cat([pictures, seen], dim=3).numpy()
    return Said("drawing", frames=tuple(to_png(one) for one in shown), regions=tuple(drawn.tolist()))


@torch.inference_mode()
def codes_of(model: Drawer, pixels: UInt8[Tensor, "B C H W"]) -> Int[Tensor, "B K"]:
    return torch.cat([model.tokenizer.codes(group.to(device_of(model))).cpu() for group in pixels.split(AT_ONCE)])


def rebuilt(model: Drawer, pixels: UInt8[Tensor, "B C H W"]) -> UInt8[Tensor, "B C H W"]:
    """What tokens keep of pictures."""
    return painted(model, list(codes_of(model, pixels)))


def similarity(run: str, pictures: UInt8[Tensor, "B C H W"], texts: Sequence[str], device: torch.device) -> Tensor:
    """How well each picture fits each text, by a run of the job `match`: cosines, B × texts.

    DALL·E draws 512 pictures for a sentence and shows those that CLIP likes best (Ramesh et al. 2021, section 2.6,
    arXiv:2102.12092).
    """
    job, judge = load_other_run("decoding.rerank", run, "match", device)
    arrays = [picture.permute(1, 2, 0).squeeze(2).numpy() for picture in pictures]
    return job.output.similarity(judge, arrays, texts).cpu()


def as_text(codes: Int[Tensor, " K"]) -> str:
    return " ".join(map(str, codes.tolist()))
