"""Where a speech recognizer listened: weights over the seconds of a recording for each token, upon its spectrogram.

The text is forced through the model, so decoding is as it was without anybody looking.
"""

from collections.abc import Sequence

import numpy as np
import torch

from regard.attention import Trace
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.inputs.sound.batches import collate
from regard.look import Attention, AttentionRecord, Axis, axis
from regard.look.of_model import evaluating
from regard.look.records import Kind
from regard.models.ctc import SpeechToText
from regard.outputs.text.listening import Clock, Features
from regard.outputs.text.transcribe_settings import SoundSettings
from regard.special_tokens import END, START


def look(
    model: SpeechToText,
    tokenizer: Tokenizer,
    features: Features,
    tokens: Sequence[int],
    sound: SoundSettings,
    clock: Clock,
    *,
    method: str,
    name: str,
    input: str,
) -> AttentionRecord:
    """Rows are tokens, columns the vectors of the memory with their times; the signal is the spectrogram."""
    if method != "raw":
        raise CallError(f"method={method!r} is for texts; of sound there is raw: the weights that the model has")
    device = next(model.parameters()).device
    target = torch.tensor([[*tokens, END]], device=device)
    frames = collate([features]).to(device)
    with evaluating(model), torch.no_grad():
        with Trace(model) as seen:
            model.features(model.encode(frames), target)
        scores = model.score(frames, target)[0].tolist()
    try:
        weights = {key: seen[key][0].float().cpu().numpy() for key in seen.names}
    except RuntimeError:
        raise CallError("this model has no attention, so there is nothing to look at") from None
    heard = -(-len(features) // clock.reduction)
    axes = {
        "target": _written(tokenizer, [*tokens, END]),
        "source": _heard(features, heard, sound, clock),
        "read": _written(tokenizer, [START, *tokens]),
    }
    found = [_attention(key, table) for key, table in weights.items()]
    return AttentionRecord(
        tuple(sorted(found, key=lambda one: ("cross", "encoder", "decoder").index(one.kind))), axes,
        method=method, model=name, input=input, output=tokenizer.decode(tokens), scores=tuple(scores),
    )  # fmt: skip


def _heard(features: Features, vectors: int, sound: SoundSettings, clock: Clock) -> Axis:
    edges = clock.edges(vectors)
    labels = [f"{time:.2f}" for time in clock.middles(vectors)]
    until = (len(features) - 1) * sound.hop + sound.window
    times = np.clip(edges[:-1], 0.0, until).tolist()
    return axis(labels, times=times, until=until, signal=features.T)


def _written(tokenizer: Tokenizer, ids: Sequence[int]) -> Axis:
    spans = tokenizer.decoded_spans(ids)
    words = [None if token in (START, END) else span.word for token, span in zip(ids, spans, strict=True)]
    return axis(tokenizer.labels(ids), words=words)


def _attention(name: str, table: np.ndarray) -> Attention:
    kind: Kind = "encoder" if name.startswith("encoder.") else "decoder"
    if name.endswith(".cross") or name == "decoder.attention":
        kind = "cross"
    layer = int(name.split(".layers.")[1].split(".")[0]) if ".layers." in name else 0
    rows = "source" if kind == "encoder" else "target"
    return Attention(name, kind, layer, np.ascontiguousarray(table), rows, "read" if kind == "decoder" else "source")
