"""Where two towers look: at which regions of a picture, and at which words of a text.

The text as a whole is the one row of what is looked at in the picture (`cross`); its columns are the regions:

    pooling=attention       the weights of the pooling; with blocks of self-attention, also their rollout
    else                    as for classification: the class token of a Vision Transformer, the positions of a CNN
    leave-one-out           by how much the cosine with the text falls when a region is covered; asks any model

Beside it (`decoder`, columns are tokens) stands which words the text tower heeds. A picture's weights are the same
whatever is said of it, as the towers do not see each other; leave-one-out is about both.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.attention import Trace
from regard.attention.layer import Attention as Layer
from regard.attention.multihead import MultiHead
from regard.data.tokens import Tokenizer
from regard.encoders.image_input import PictureEncoder
from regard.errors import CallError, nearest
from regard.inputs.text.frame import Frame
from regard.layers.pooling import AttentionPooling
from regard.look import Attention, AttentionRecord, Axis, Token, axis
from regard.look.card import normalized
from regard.look.methods.rollout import rollout
from regard.look.of_model import evaluating
from regard.models.two_towers import Tower, TwoTowers
from regard.old_job import Picture
from regard.outputs.labels.classify_image_looking import over_picture
from regard.outputs.labels.classify_looking import placed, text_axis, with_heads
from regard.outputs.text.caption_looking import filmstrips

METHODS = ("raw", "rollout", "leave-one-out")
POOLING = "pooling.attention"
NOTE = "Where the image tower looks: brighter is more."
COVERED = "leave-one-out, loss of the cosine with the text when the region is covered, positive part, scaled to 1"


def attends(model: TwoTowers) -> bool:
    """Whether there is attention in the image tower."""
    return any(isinstance(part, Layer | MultiHead) for part in model.image.modules())


def shown(records: Sequence[AttentionRecord]) -> list[Picture]:
    """For the report of a run."""
    return filmstrips(records, NOTE)


def look(
    model: TwoTowers,
    tokenizer: Tokenizer,
    frame: Frame,
    pixels: UInt8[Tensor, "C H W"],
    text: str,
    ids: Sequence[int],
    *,
    method: str,
    name: str,
    input: str,
) -> AttentionRecord:
    if method not in METHODS:
        raise CallError(f"method={method!r} is not known for matching{nearest(method, METHODS)}")
    encoder, where = model.image.encoder, next(model.parameters()).device
    assert isinstance(encoder, PictureEncoder)
    picture, tokens = pixels.permute(1, 2, 0).numpy(), frame.read([ids]).to(where)
    with evaluating(model), torch.no_grad():
        seen, image = _traced(model.image, pixels.unsqueeze(0).to(where))
        read, said = _traced(model.text, tokens)
        axes = {"source": axis(grid=encoder.grid, image=picture)}
        if method == "leave-one-out":
            lost = normalized(_covered(model.image, pixels, said)[None])
            found = [Attention(method, "cross", 0, lost[None], "target", "source")]
        elif isinstance(model.image.pooling, AttentionPooling):
            found = _pooled(seen, method)
        elif seen:
            found, axes = over_picture(seen, encoder, picture, method)
        else:
            found = []
    found = [replace(one, name=f"image.{one.name}") for one in found]
    heeded = [
        replace(one, name=f"text.{one.name}", kind="decoder", columns="read")
        for one in placed(model.text, read)
        if one.kind == "cross"
    ]
    if not found and not heeded:
        raise CallError(
            "this model has no attention, so there is nothing to look at; the method leave-one-out asks any model "
            "what it heeds"
        )
    axes |= {
        "target": Axis((Token(text, (0, len(text)), 0),), text),
        "read": text_axis(tokenizer, frame, text, ids),
    }
    tables = [replace(one, weights=np.ascontiguousarray(one.weights, np.float32)) for one in (*found, *heeded)]
    return AttentionRecord(
        tuple(tables), axes, method=COVERED if method == "leave-one-out" else method,
        model=name, input=input, output=text, score=float(image[0] @ said[0]),
    )  # fmt: skip


def _traced(tower: Tower, inputs: Tensor) -> tuple[dict[str, np.ndarray], Float[Tensor, "1 D"]]:
    """All weights of one input, by module, heads × rows × columns; and its vector."""
    with Trace(tower) as seen:
        vector = tower(inputs)
    try:
        names = seen.names
    except RuntimeError:  # there is no attention
        names = []
    return {name: with_heads(seen[name][0].float().cpu().numpy()) for name in names}, vector


def _pooled(seen: dict[str, np.ndarray], method: str) -> list[Attention]:
    """The weights of the pooling, and what regions look at before it."""
    pooling = seen[POOLING]
    regions = pooling.shape[-1]
    blocks = {name: table for name, table in seen.items() if table.shape[-2:] == (regions, regions)}
    if method == "rollout":
        if not blocks:
            raise CallError("method='rollout' follows attention from layer to layer: there is one layer, see 'raw'")
        pooling = pooling[0] @ rollout(list(blocks.values()))
        return [Attention("rollout.cross", "cross", 0, pooling[None], "target", "source")]
    own = [
        Attention(name, "encoder", number, table, "source", "source")
        for number, (name, table) in enumerate(blocks.items())
    ]
    return [Attention(POOLING, "cross", 0, pooling, "target", "source"), *own]


def _covered(tower: Tower, pixels: UInt8[Tensor, "C H W"], said: Float[Tensor, "1 D"]) -> Float[np.ndarray, " K"]:
    """I · T less I' · T, where one region of I' after the other is covered with the mean color."""
    encoder = tower.encoder
    assert isinstance(encoder, PictureEncoder)
    rows, columns = (
        np.linspace(0, side, parts + 1).round().astype(int)
        for side, parts in zip(pixels.shape[1:], encoder.grid, strict=True)
    )
    color = (encoder.mean * 255).round().to(torch.uint8).cpu()
    whole = float(tower(pixels.unsqueeze(0).to(said.device))[0] @ said[0])
    lost = []
    for top, bottom in pairwise(rows):
        strip = pixels.repeat(len(columns) - 1, 1, 1, 1)
        for number, (left, right) in enumerate(pairwise(columns)):
            strip[number, :, top:bottom, left:right] = color
        lost += (whole - tower(strip.to(said.device)) @ said[0]).tolist()
    return np.array(lost)
