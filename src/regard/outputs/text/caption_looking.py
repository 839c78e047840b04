"""Where a captioner looked: weights over the regions of the picture for each word, and whether it was the right place.

The caption is forced through the model, so decoding is as it was without anybody looking. Where the decoder has a gate
(it can look away), the weights of a word are multiplied by the gate: they then sum to less than one, and a word that
was written from language alone is dark.
"""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention import Trace
from regard.data.tokenizer import Tokenizer
from regard.decoders.recurrent import RecurrentDecoder
from regard.encoders.image_input import PictureEncoder
from regard.errors import CallError
from regard.inputs.image.store import PictureStore
from regard.job import Picture
from regard.look import Attention, AttentionRecord, axis, save
from regard.look.methods.rollout import decoder_rollout, rollout
from regard.models.vision import Captioner
from regard.outputs.text.looking import evaluating
from regard.special_tokens import END, START

METHODS = ("raw", "rollout")
Ids = Sequence[int]


def attends(model: Captioner) -> bool:
    return not (isinstance(model.decoder, RecurrentDecoder) and model.decoder.attention is None)


def grid_of(model: Captioner) -> tuple[int, int]:
    """Rows × columns of the regions that the decoder attends to."""
    assert isinstance(model.encoder, PictureEncoder)
    return model.encoder.grid


def _traced(model: Captioner, pixels: Tensor, tokens: Ids) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """All weights of one picture and one caption, by module, and the gate of each word if there is one."""
    device = next(model.parameters()).device
    target = torch.tensor([[*tokens, END]], device=device)
    with evaluating(model), torch.no_grad(), Trace(model) as seen:
        model.features(model.encode(pixels.unsqueeze(0).to(device)), target)
    try:
        names = seen.names
    except RuntimeError:
        raise CallError("this model has no attention, so there is nothing to look at") from None
    weights = {name: seen[name][0].float().cpu().numpy() for name in names}
    gate = weights.pop("decoder.gate", None)
    return weights, None if gate is None else gate[0, :, 0]


def forced(model: Captioner, pixels: Tensor, tokens: Ids) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """Weights over the regions, heads × words × regions for each attention of the decoder, and the gate."""
    weights, gate = _traced(model, pixels, tokens)
    over_regions = {name: table for name, table in weights.items() if _kind(name) == "cross"}
    if gate is not None:
        over_regions = {name: table * gate[:, None] for name, table in over_regions.items()}
    return over_regions, gate


def _kind(name: str) -> Any:
    if name.endswith(".cross") or name == "decoder.attention":
        return "cross"
    return "encoder" if name.startswith("encoder.") else "decoder"


def look(
    model: Captioner, tokenizer: Tokenizer, pixels: Tensor, tokens: Ids, *, method: str, name: str, input: str
) -> AttentionRecord:
    if method not in METHODS:
        raise CallError(f"method={method!r} is not known for captions; there are {', '.join(METHODS)}")
    weights, gate = _traced(model, pixels, tokens)
    picture = pixels.permute(1, 2, 0).numpy()
    regions = axis(grid=grid_of(model), image=picture)
    words = _words(tokenizer, [*tokens, END])
    axes = {"target": words, "source": regions, "read": _words(tokenizer, [START, *tokens])}
    found = [_attention(key, table, gate, len(regions)) for key, table in weights.items()]
    attentions = [one for one in found if one is not None]
    if method == "rollout":
        attentions = [_rolled(attentions)]
    scores = log_probabilities(model, pixels, tokens)
    return AttentionRecord(
        tuple(sorted(attentions, key=lambda one: ("cross", "encoder", "decoder").index(one.kind))), axes,
        method=method if gate is None else f"{method}, times the gate", model=name, input=input,
        output=tokenizer.decode(tokens), scores=tuple(scores.tolist()),
    )  # fmt: skip


def _words(tokenizer: Tokenizer, ids: Ids) -> Any:
    spans = tokenizer.decoded_spans(ids)
    words = [None if token in (START, END) else span.word for token, span in zip(ids, spans, strict=True)]
    return axis(tokenizer.labels(ids), words=words)


def _attention(name: str, table: np.ndarray, gate: np.ndarray | None, regions: int) -> Attention | None:
    """None: attention inside the encoder over something else than its regions (a class token beside them)."""
    kind = _kind(name)
    layer = int(name.split(".layers.")[1].split(".")[0]) if ".layers." in name else 0
    if kind == "cross":
        table = table if gate is None else table * gate[:, None]
    elif kind == "encoder" and table.shape[-1] == regions + 1:
        table = table[:, 1:, 1:]  # without the class token
    if kind == "encoder" and table.shape[-2:] != (regions, regions):
        return None
    rows = "source" if kind == "encoder" else "target"
    weights = np.ascontiguousarray(table, np.float32)
    return Attention(name, kind, layer, weights, rows, "read" if kind == "decoder" else "source")


def _rolled(attentions: Sequence[Attention]) -> Attention:
    own = [one.weights for one in attentions if one.kind == "decoder"]
    cross = [one.weights for one in attentions if one.kind == "cross"]
    if not own:
        raise CallError("method='rollout' follows attention from layer to layer, which takes a Transformer decoder")
    encoder = [one.weights for one in attentions if one.kind == "encoder" and ".layers." in one.name]
    mixed = rollout(encoder) if encoder else np.eye(cross[0].shape[-1])
    _, regions = decoder_rollout(own, cross, mixed)
    return Attention("rollout.cross", "cross", 0, np.ascontiguousarray(regions[None], np.float32), "target", "source")


@torch.no_grad()
def log_probabilities(model: Captioner, pixels: Tensor, tokens: Ids) -> np.ndarray:
    """log p(y_t | y_<t, picture) of each token, the end symbol included."""
    device = next(model.parameters()).device
    with evaluating(model):
        found = model.score(pixels.unsqueeze(0).to(device), torch.tensor([[*tokens, END]], device=device))
    return found[0].float().cpu().numpy()


NOTE = "Where the decoder looks when it writes each word: brighter is more."


def filmstrips(records: Sequence[AttentionRecord], note: str = NOTE) -> list[Picture]:
    """For the report of a run."""
    return [Picture(f"{one.input} → {one.output}", _as_html(one), note) for one in records]


def _as_html(record: AttentionRecord) -> str:
    with TemporaryDirectory(prefix="regard-look-") as folder:
        file = save(record, Path(folder) / "strip.png", view="overlay")
        data = b64encode(file.read_bytes()).decode()
    return f'<img alt="attention over the picture" src="data:image/png;base64,{data}">'


def pointing_game(model: Captioner, tokenizer: Tokenizer, store: PictureStore) -> dict[str, float]:
    """How often the most attended region lies in the box of what the noun names, in percent.

    A reference caption is forced through the model; of each noun the middle of the region with the largest weight (the
    mean over heads and layers) has to lie in its box. `pointing_uniform` is the chance of a region picked blindly.
    """
    height, width = store.form.height, store.form.width
    rows, columns = grid_of(model)
    row, column = np.divmod(np.arange(rows * columns), columns)
    down, right = (row + 0.5) * height / rows, (column + 0.5) * width / columns
    hits, chances = [], []
    for number, entry in enumerate(store.entries):
        if not entry.nouns:
            continue
        text = entry.texts[0]
        tokens = tokenizer.encode(text)
        weights, _ = forced(model, torch.from_numpy(store.pixels[number].copy()), tokens)
        mean = np.mean([table.mean(0) for table in weights.values()], axis=0)
        of_word = [span.word for span in tokenizer.spans(text)]
        for noun in entry.nouns[0]:
            top, left, bottom, end = noun.box
            inside = (down >= top) & (down < bottom) & (right >= left) & (right < end)
            last = max(place for place, word in enumerate(of_word) if word == noun.word)
            hits.append(bool(inside[mean[last].argmax()]))
            chances.append(inside.mean())
    return {"pointing": 100 * float(np.mean(hits)), "pointing_uniform": 100 * float(np.mean(chances))} if hits else {}
