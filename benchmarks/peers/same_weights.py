"""A trained model of regard's, and the same weights in Hugging Face's Marian."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from peers.messages import say
from peers.models import marian_model, ours
from regard.attention.positions import sinusoids
from regard.data.examples import ExampleBatch
from regard.job import Job
from regard.models.seq2seq import Seq2Seq
from regard.settings.training import TrainingSettings
from regard.special_tokens import PAD, START
from regard.training.loop import fit
from regard.training.parallel import Parallel

EPOCHS = 3


def trained(data: Job, folder: Path) -> Seq2Seq:
    """A model with its norms last, as Marian has them; from the folder, if it was trained before."""
    model = ours(norm_first=False)
    if not (folder / "model.safetensors").exists():
        say(f"training the model of {folder}, for {EPOCHS} epochs; some minutes, once")
        how = TrainingSettings.model_validate(
            {"max_epochs": EPOCHS, "max_tokens": 2048, "warmup": 400, "average": 0.99, "log_every": 100}
        )
        fit(
            model, data.output.batches(data.splits["train"], how.max_tokens, seed=how.seed), how, folder, on_message=say
        )
    Parallel(device=torch.device("cpu")).load(model, load_file(folder / "model.safetensors"))
    return model.eval()


@torch.no_grad()
def as_marian(model: Seq2Seq) -> Any:
    """The same weights in Hugging Face's Marian."""
    marian = marian_model().eval()
    core = marian.model
    core.shared.weight.copy_(model.output.weight)

    def linears(targets: Iterable[nn.Linear], weight: Tensor, bias: Tensor) -> None:
        targets = list(targets)
        for target, w, b in zip(targets, weight.chunk(len(targets)), bias.chunk(len(targets)), strict=True):
            target.weight.copy_(w)
            target.bias.copy_(b)

    def like(target: nn.Module, source: nn.Module) -> None:
        target.load_state_dict(source.state_dict())

    pairs: list[Any] = [(core.encoder, model.encoder), (core.decoder, model.decoder)]
    for theirs, mine in pairs:
        theirs.embed_positions.weight.copy_(sinusoids(*theirs.embed_positions.weight.shape))
        for layer, block in zip(theirs.layers, mine.layers, strict=True):
            attention = layer.self_attn
            project = block.attention.project
            linears((attention.q_proj, attention.k_proj, attention.v_proj), project.weight, project.bias)
            like(attention.out_proj, block.attention.out)
            like(layer.self_attn_layer_norm, block.attention_norm)
            if block.cross is not None:
                attention = layer.encoder_attn
                like(attention.q_proj, block.cross.project)
                kv = block.cross.project_kv
                linears((attention.k_proj, attention.v_proj), kv.weight, kv.bias)
                like(attention.out_proj, block.cross.out)
                like(layer.encoder_attn_layer_norm, block.cross_norm)
            like(layer.fc1, block.feed_forward.widen)
            like(layer.fc2, block.feed_forward.narrow)
            like(layer.final_layer_norm, block.feed_forward_norm)
    return marian


@torch.no_grad()
def require_equal_logits(model: Seq2Seq, marian: Any, batch: ExampleBatch[Any]) -> None:
    begun = torch.cat([torch.full_like(batch.target[:, :1], START), batch.target[:, :-1]], dim=1)
    mine = model.logits(model.features(model.encode(batch.source), batch.target))
    theirs = marian(input_ids=batch.source, attention_mask=(batch.source != PAD).long(), decoder_input_ids=begun).logits
    apart = float((mine - theirs)[batch.target != PAD].abs().max())
    say(f"logits of regard and Marian are at most {apart:.1e} apart")
    if apart > 1e-4:
        raise SystemExit("the weights were not carried over rightly")
