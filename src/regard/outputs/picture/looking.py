"""Where a drawer looked: which words each region of the picture was drawn from.

The picture's tokens are forced through the decoder, so drawing is as it was without anybody looking. Of every layer and
head there are two tables:

    cross     a row a token of the sentence: how much each region, when it was drawn, looked at it. This is the
              decoder's table turned round, so that a word can be laid over the picture; rows do not sum to one, columns
              sum to what the region gave to the sentence at all
    decoder   a row a region: how much it looked at the regions drawn before it
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention import Trace
from regard.data.tokenizer import Tokenizer
from regard.errors import CallError
from regard.look import Attention, AttentionRecord, axis
from regard.look.of_model import evaluating
from regard.look.records import Kind
from regard.models.drawer import Drawer

METHOD = "raw, turned round: by which regions each word was looked at"


def look(
    model: Drawer, tokenizer: Tokenizer, text: str, ids: Sequence[int], codes: Int[Tensor, " K"], *, name: str = ""
) -> AttentionRecord:
    """`ids`: of the sentence, without <s> and </s>."""
    device = model.writer.output.weight.device
    ended = torch.tensor([[*ids, END]], device=device)
    codes = codes.unsqueeze(0).to(device)
    with evaluating(model), torch.no_grad():
        with Trace(model) as seen:
            model.writer.features(model.tokens(ended, codes)[:, :-1])
        scores = model.scores(ended, codes)[0]
        picture = model.tokenizer.pictures(codes)[0].permute(1, 2, 0).cpu().numpy()
    read, first = len(ids) + 2, model.text_length  # <s>, the text, </s>; the region that is drawn first looks from here
    found = []
    for layer, module in enumerate(seen.names):
        table = seen[module][0, :, first:].float().cpu().numpy()  # heads × regions × all that was read
        before = np.pad(table[:, :, first + 1 :], [(0, 0), (0, 0), (0, 1)])  # nothing looks at the last region
        found.append(_attention(module, "cross", layer, table[:, :, :read].transpose(0, 2, 1), "source"))
        found.append(_attention(module, "decoder", layer, before, "target"))
    spans = tokenizer.decoded_spans([START, *ids, END])
    words = [
        None if token in (START, END) else span.word for token, span in zip([START, *ids, END], spans, strict=True)
    ]
    axes = {
        "source": axis(tokenizer.labels([START, *ids, END]), words=words),
        "target": axis(grid=model.tokenizer.grid, image=picture),
    }
    return AttentionRecord(
        tuple(sorted(found, key=lambda one: one.kind)), axes, method=METHOD, model=name, input=text,
        score=float(scores.sum()), scores=tuple(scores.tolist()),
    )  # fmt: skip


def _attention(name: str, kind: Kind, layer: int, weights: np.ndarray, rows: str) -> Attention:
    return Attention(name, kind, layer, np.ascontiguousarray(weights, np.float32), rows, "target")


def require_raw(method: str) -> None:
    if method != "raw":
        raise CallError(f"method={method!r} is not known for drawings; there is raw")
