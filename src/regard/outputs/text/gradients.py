"""Gradients of log p(y_t | y_<t, x) of a text-to-text model: by its attention weights, and by its input vectors.

Each step of the output has a gradient of its own. A batch repeats the sentence, one row for each step t, and the sum of
log p(y_t) of row t has all the gradients at once: what belongs to a row cannot feel the others. Gradients are asked
for by name, so those of the parameters are neither computed nor kept.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention import Trace
from regard.layers.embedding import Embedding
from regard.models.seq2seq import Seq2Seq
from regard.outputs.text.search import Ids, to_tensor

GROUP = 4096  # tokens that go through the model together


def by_weights(model: Seq2Seq, ids: Ids, tokens: Ids, whole: Mapping[str, bool]) -> dict[str, np.ndarray]:
    """H Q K for each attention. `whole` says of which ones the whole output is asked, not the step of the row.

    The queries of an encoder belong to no step of the output, those of a decoder to one each.
    """
    kept: dict[str, list[np.ndarray]] = {name: [] for name in whole}
    for steps in _groups(ids, tokens):
        with Trace(model, gradients=True) as seen:
            total = _log_probability(model, ids, tokens, steps)
        for name, gradient in seen.gradients(total).items():  # steps H Q K
            if whole[name]:
                kept[name].append(gradient.sum(0).float().cpu().numpy())
            else:
                row, step = torch.arange(len(steps), device=gradient.device), steps.to(gradient.device)
                kept[name].append(gradient[row, :, step].transpose(0, 1).float().cpu().numpy())  # H steps K
    return {
        name: np.sum(parts, axis=0) if whole[name] else np.concatenate(parts, axis=1) for name, parts in kept.items()
    }


def by_input(model: Seq2Seq, ids: Ids, tokens: Ids) -> tuple[np.ndarray, np.ndarray]:
    """The vectors of the source tokens, S D, and the gradients of each step by each of them, T S D."""
    embedding = model.encoder.embedding
    assert isinstance(embedding, Embedding)
    vectors: list[Tensor] = []

    def note(module: nn.Module, inputs: object, output: Tensor) -> None:
        vectors.append(output)

    hook = embedding.table.register_forward_hook(note)
    felt = []
    try:
        for steps in _groups(ids, tokens):
            vectors.clear()
            total = _log_probability(model, ids, tokens, steps)
            felt.append(torch.autograd.grad(total, vectors[0])[0][:, : len(ids)].float().cpu().numpy())
    finally:
        hook.remove()
    return vectors[0][0, : len(ids)].detach().float().cpu().numpy(), np.concatenate(felt)


def _groups(ids: Ids, tokens: Ids) -> Iterator[Tensor]:
    """Steps that go through the model together."""
    longest = max(len(ids), len(tokens)) + 1
    yield from torch.arange(len(tokens) + 1).split(max(1, GROUP // longest))


def _log_probability(model: Seq2Seq, ids: Ids, tokens: Ids, steps: Tensor) -> Tensor:
    """Σ_t log p(y_t | y_<t, x) over `steps`, each in a row of its own."""
    device = next(model.parameters()).device
    source, target = (to_tensor([sentence] * len(steps), device) for sentence in (ids, tokens))
    row, steps = torch.arange(len(steps), device=device), steps.to(device)
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN's way back is for training only
        features = model.features(model.encode(source), target)[row, steps]
        return model.logits(features).log_softmax(-1).gather(1, target[row, steps].unsqueeze(1)).sum()
