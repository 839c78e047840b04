"""Where a classifier of pictures looks.

The label is the one row of what the answer looks at (`cross`); its columns are the regions of the picture:

    Vision Transformer           the row of the class token, in every layer and head, or their rollout
    CNN with self-attention      the mean over all positions, as all of them are pooled alike

Self-attention region by region is there too (`encoder`): `regard look ... --kind encoder --view overlay --row N` shows
what region N looks at.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention import Trace
from regard.encoders.cnn import ConvNet
from regard.encoders.image_input import PictureEncoder
from regard.errors import CallError, nearest
from regard.look import Attention, AttentionRecord, Axis, Token, axis
from regard.look.methods.rollout import rollout
from regard.look.of_model import evaluating
from regard.look.records import Head
from regard.models.classifier import Classifier
from regard.outputs.labels.labels import Labels

METHODS = ("raw", "rollout")
CLASS = "[CLS]"


def look(
    model: Classifier,
    pixels: Tensor,
    label: int,
    labels: Labels,
    input: str,
    *,
    method: str = "raw",
    layer: int | None = None,
    head: Head = "mean",
) -> AttentionRecord:
    if method not in METHODS:
        raise CallError(f"method={method!r} is not known for pictures{nearest(method, METHODS)}")
    encoder = model.encoder
    assert isinstance(encoder, PictureEncoder)
    picture = pixels.permute(1, 2, 0).numpy()
    where = next(model.parameters()).device
    with evaluating(model), torch.no_grad(), Trace(model) as seen:
        logits = model.logits(pixels.unsqueeze(0).to(where))[0].float()
    chance = torch.nn.functional.logsigmoid(logits) if labels.several else logits.log_softmax(-1)
    try:
        tables = {name: seen[name][0].float().cpu().numpy() for name in seen.names}
    except RuntimeError:
        raise CallError("this model has no attention, so there is nothing to look at") from None
    found, axes = over_picture(tables, encoder, picture, method)
    name = labels.names[label]
    axes["target"] = Axis((Token(name, (0, len(name)), 0),), name)
    record = AttentionRecord(
        tuple(found), axes, method=method, input=input, output=name, scores=(float(chance[label]),)
    )
    record.matrix("cross", layer, head)  # says what is wrong with a layer or head that is not there
    return record


def over_picture(
    tables: dict[str, np.ndarray], encoder: PictureEncoder, picture: np.ndarray, method: str
) -> tuple[list[Attention], dict[str, Axis]]:
    """What the summary of a picture looks at, from the weights inside its encoder's body, and their axes."""
    if isinstance(encoder.body, ConvNet):
        return _positions(tables, encoder.body, picture, method)
    return _class_token(tables, encoder.grid, picture, method)


def _class_token(
    tables: dict[str, np.ndarray], grid: tuple[int, int], picture: np.ndarray, method: str
) -> tuple[list[Attention], dict[str, Axis]]:
    """The class token stands before the regions."""
    regions = [f"{row},{column}" for row in range(grid[0]) for column in range(grid[1])]
    axes = {"source": axis([CLASS, *regions], grid=grid, image=picture)}
    if method == "rollout":
        tables = {"rollout": rollout(list(tables.values()))[None]}
    numbered = list(enumerate(tables.items()))
    cross = [_one(f"{name} ({CLASS})", "cross", number, table[:, :1], "target") for number, (name, table) in numbered]
    return cross + [_one(name, "encoder", number, table, "source") for number, (name, table) in numbered], axes


def _positions(
    tables: dict[str, np.ndarray], body: ConvNet, picture: np.ndarray, method: str
) -> tuple[list[Attention], dict[str, Axis]]:
    """Each stage with attention has a grid of its own; the last one is what is looked at first."""
    if method == "rollout":
        raise CallError("method='rollout' follows attention from layer to layer, which takes a Vision Transformer")
    (name, table) = list(tables.items())[-1]
    table = table.reshape(-1, *table.shape[-2:])
    grid = next(
        (rows, columns)
        for stage in range(1, 33)
        for rows, columns in [(body.size[0] >> stage, body.size[1] >> stage)]
        if rows * columns == table.shape[-1]
    )
    axes = {"source": axis(grid=grid, image=picture)}
    mean = table.mean(1, keepdims=True)
    return [_one(f"{name} (mean)", "cross", 0, mean, "target"), _one(name, "encoder", 0, table, "source")], axes


def _one(name: str, kind: Any, layer: int, table: np.ndarray, rows: str) -> Attention:
    return Attention(name, kind, layer, np.ascontiguousarray(table, np.float32), rows, "source")
