"""Where a drawer looked: which words each region of the picture was drawn from.

The picture's tokens are forced through the decoder, so drawing is as it was without anybody looking. Of every layer and
head there are two tables:

    cross     how much each region, when it was drawn, looked at each token of the sentence; shown turned round, a row a
              token, so that a word can be laid over the picture. Columns sum to what the region gave to the sentence
    decoder   a row a region: how much it looked at the regions drawn before it
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.inputs.text.input import TextInput, TextItem
from regard.look.axis import Axis, Token, axis
from regard.look.case import Case
from regard.look.placing import Table
from regard.look.records import Attention
from regard.models.drawer import Drawer
from regard.outputs.batched import case_of, device_of
from regard.special_tokens import START


def drawing_case(model: Drawer, input: TextInput, item: TextItem, codes: Int[Tensor, " K"]) -> Case:
    """A sentence, and the picture of these codes. A word that is left out is not there at all."""
    with torch.no_grad():
        image = model.tokenizer.pictures(codes[None].to(device_of(model)))[0].permute(1, 2, 0).cpu().numpy()
    axes = {"source": _after_start(input, item), "target": axis(grid=model.tokenizer.grid, image=image)}
    parts = [place + 1 for place in input.parts(item)]
    return case_of(
        input, model, model.writer.decoder, item, model.scores, axes, target=codes[None], parts=parts,
        gather=lambda found: np.concatenate(found).sum(-1)[:, parts],
        place=_words_and_regions, turned=True, offset=model.text_length,
    )  # fmt: skip


def _after_start(input: TextInput, item: TextItem) -> Axis:
    """The sentence as the decoder reads it."""
    words = input.axis(item)
    return replace(words, tokens=(Token(input.tokenizer.labels([START])[0], special=True), *words.tokens))


def _words_and_regions(case: Case, tables: Sequence[Table]) -> list[Attention]:
    """A decoder's rows and columns are <s>, the sentence, its padding, and then the regions, without the last."""
    words, found = len(case.axes["source"]), []
    for name, role, weights in tables:
        drawn = weights[:, case.offset :]  # heads × regions × all that was read
        before = np.pad(drawn[:, :, case.offset + 1 :], [(0, 0), (0, 0), (0, 1)])  # nothing looks at the last region
        found.append(Attention(name, "cross", role.layer, drawn[:, :, :words], "target", "source"))
        found.append(Attention(name, "decoder", role.layer, before, "target", "target"))
    return found
