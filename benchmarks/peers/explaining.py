"""Explanations by other libraries, of models that `regard import` reads too: of the token that follows one text."""

import sys
from collections.abc import Callable
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor

from regard import api
from regard.commands.tools import import_model
from regard.look.methods.attnlrp import attnlrp
from regard.look.methods.inputs import input_times_gradient, integrated_gradients
from regard.tasks.base import LookOptions

TEXT, OTHER, SAID = "a red dog slept", "a big dog slept", " and"
LAYERS, HEADS, PIECES = 3, 4, 64


def _tokenizer(folder: Path) -> Tokenizer:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    texts = [TEXT + SAID, OTHER + SAID] * 3
    inner.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    )
    inner.add_special_tokens(["<|endoftext|>"])
    inner.save(str(folder / "tokenizer.json"))
    return inner


class Theirs(NamedTuple):
    """A model, its tokenizer, both texts as tokens, and the token after the first one, which is explained."""

    model: Any
    tokenizer: Any
    clean: Tensor
    corrupted: Tensor
    token: int


def _random(model: Any, inner: Tokenizer, folder: Path) -> Theirs:
    import transformers

    torch.manual_seed(2)
    for parameter in model.parameters():  # fresh ones have biases of 0 and norms of 1, which would hide mistakes
        torch.nn.init.normal_(parameter, mean=0.02, std=0.2)
    model.tie_weights()
    model.eval().save_pretrained(folder)
    clean, corrupted = inner.encode(TEXT + SAID).ids, inner.encode(OTHER + SAID).ids
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    return Theirs(model, tokenizer, torch.tensor([clean[:-1]]), torch.tensor([corrupted[:-1]]), clean[-1])


def gpt2(folder: Path) -> Theirs:
    import transformers

    inner = _tokenizer(folder)
    size = inner.get_vocab_size()
    settings = transformers.GPT2Config(
        vocab_size=size, n_embd=32, n_layer=LAYERS, n_head=HEADS, n_positions=32, bos_token_id=size - 1,
        eos_token_id=size - 1,
    )  # fmt: skip
    return _random(transformers.GPT2LMHeadModel(settings), inner, folder)


def llama(folder: Path) -> Theirs:
    import transformers

    inner = _tokenizer(folder)
    size = inner.get_vocab_size()
    settings = transformers.LlamaConfig(
        vocab_size=size, hidden_size=32, intermediate_size=48, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=2, max_position_embeddings=32, bos_token_id=None, eos_token_id=size - 1,
    )  # fmt: skip
    return _random(transformers.LlamaForCausalLM(settings), inner, folder)


FAMILIES: dict[str, Callable[[Path], Theirs]] = {"gpt2": gpt2, "llama": llama}


# ---------------------------------------------------------------------------------------------------------------- ours
def our_explanations(folder: Path) -> dict[str, np.ndarray]:
    """By name, of the run that the folder is imported to."""
    import_model(str(folder), folder / "run")
    run = api.load(folder / "run")
    how: dict[str, Any] = {"output": SAID, "row": -1}
    case = run.job.output.case(run.model, TEXT, run.job.output.tell(run.model, TEXT, LookOptions(output=SAID))[0])
    return {
        "patching, heads": run.explain(TEXT, "patching", against_input=OTHER, **how).values,
        "patching, positions": run.explain(TEXT, "patching", against_input=OTHER, by="positions", **how).values[:-1],
        "lens": run.explain(TEXT, "lens", output=SAID).values[:, -1],
        "direct logits": run.explain(TEXT, "logits", **how).values,
        "input-gradient": input_times_gradient(case).parts[-1],
        "integrated-gradients": integrated_gradients(case, PIECES).parts[-1],
        "attnlrp": attnlrp(case).parts[-1],
    }


# -------------------------------------------------------------------------------------------------------------- theirs
@torch.no_grad()
def lens_explanations(theirs: Theirs) -> dict[str, np.ndarray]:
    """TransformerLens: of GPT-2, whose norms it can fold into what follows them."""
    from transformer_lens import patching  # pyright: ignore[reportMissingImports]
    from transformer_lens.model_bridge import TransformerBridge  # pyright: ignore[reportMissingImports]

    if theirs.model.config.model_type != "gpt2":
        return {}
    bridge = TransformerBridge.boot_transformers(
        "gpt2", hf_model=deepcopy(theirs.model), tokenizer=theirs.tokenizer, device="cpu", dtype=torch.float32
    )
    bridge.enable_compatibility_mode(
        fold_ln=True, center_writing_weights=False, center_unembed=False, fold_value_biases=False
    )
    logits, cache = bridge.run_with_cache(theirs.clean)

    def score(logits: Tensor) -> Tensor:
        return logits[0, -1].log_softmax(-1)[theirs.token]

    top, bottom = score(logits), score(bridge(theirs.corrupted))

    def share(logits: Tensor) -> Tensor:
        return (score(logits) - bottom) / (top - bottom)

    heads = patching.get_act_patch_attn_head_out_all_pos(bridge, theirs.corrupted, cache, share)
    positions = patching.get_act_patch_resid_pre(bridge, theirs.corrupted, cache, share)
    states = cache.accumulated_resid(layer=LAYERS, apply_ln=True, pos_slice=-1)
    said = (states @ bridge.W_U + bridge.b_U).softmax(-1)[:, 0, theirs.token]
    adds = cache.logit_attrs(cache.stack_head_results(layer=LAYERS, pos_slice=-1), theirs.token, pos_slice=-1)
    wide = torch.stack([cache[f"blocks.{layer}.hook_mlp_out"][:, -1] for layer in range(LAYERS)])
    feed = cache.logit_attrs(wide, theirs.token, pos_slice=-1)
    direct = torch.cat([adds.view(LAYERS, HEADS), feed.view(LAYERS, 1)], dim=1)
    found = {"patching, heads": heads, "patching, positions": positions, "lens": said, "direct logits": direct}
    return {name: table.double().numpy() for name, table in found.items()}


def captum_gradients(theirs: Theirs) -> dict[str, np.ndarray]:
    from captum.attr import InputXGradient, IntegratedGradients

    def last_step(vectors: Tensor) -> Tensor:
        return theirs.model(inputs_embeds=vectors).logits[:, -1].log_softmax(-1)[:, theirs.token]

    vectors = theirs.model.get_input_embeddings()(theirs.clean).detach()
    ways = {
        "input-gradient": InputXGradient(last_step).attribute(vectors.clone().requires_grad_()),
        "integrated-gradients": IntegratedGradients(last_step).attribute(
            vectors, n_steps=PIECES, method="riemann_middle"
        ),
    }
    return {name: found.detach().sum(-1)[0].double().numpy() for name, found in ways.items()}


def lxt_relevance(theirs: Theirs) -> dict[str, np.ndarray]:
    """LXT changes the classes of transformers for good, so it comes last."""
    for name in ("torchvision", "torchvision.models"):  # LXT loads its rules for their models, too, which are not asked
        sys.modules.setdefault(name, MagicMock())
    from lxt.efficient import monkey_patch  # pyright: ignore[reportMissingImports]

    family = theirs.model.config.model_type
    module = import_module(f"transformers.models.{family}.modeling_{family}")
    rules = import_module(f"lxt.efficient.models.{family}").attnLRP
    monkey_patch(module, patch_map=rules)
    vectors = theirs.model.get_input_embeddings()(theirs.clean).detach().requires_grad_()
    theirs.model(inputs_embeds=vectors).logits[0, -1, theirs.token].backward()
    assert vectors.grad is not None
    return {"attnlrp": (vectors * vectors.grad).detach().sum(-1)[0].double().numpy()}
