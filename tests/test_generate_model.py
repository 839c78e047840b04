"""The language model holds what published ones need, and its cache of keys and values gives the same numbers."""

import pytest
import torch

from regard.attention.memory import KeyValue, PreallocatedCache
from regard.models.language_model import LanguageModel

V, D, H, L, HIDDEN = 29, 24, 3, 2, 40


def tokens(rows: int = 2, length: int = 11) -> torch.Tensor:
    return torch.randint(4, V, (rows, length), generator=torch.Generator().manual_seed(7))


def test_gpt2_is_expressed_exactly():
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[export]'")
    torch.manual_seed(1)
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=V, n_positions=13, n_embd=D, n_layer=L, n_head=H, n_inner=HIDDEN, initializer_range=0.3
        )
    ).eval()
    ours = LanguageModel(V, D, H, L, max_length=13, feed_forward=HIDDEN, activation="gelu_tanh", norm_eps=1e-5).eval()
    state = theirs.transformer
    with torch.no_grad():
        ours.decoder.embedding.table.weight.copy_(state.wte.weight)
        ours.decoder.embedding.positions.table.copy_(state.wpe.weight)
        ours.decoder.norm.load_state_dict(state.ln_f.state_dict())
        for block, layer in zip(ours.decoder.layers, state.h, strict=True):
            block.attention_norm.load_state_dict(layer.ln_1.state_dict())
            block.feed_forward_norm.load_state_dict(layer.ln_2.state_dict())
            for mine, conv in (
                (block.attention.project, layer.attn.c_attn),
                (block.attention.out, layer.attn.c_proj),
                (block.feed_forward.widen, layer.mlp.c_fc),
                (block.feed_forward.narrow, layer.mlp.c_proj),
            ):
                mine.weight.copy_(conv.weight.T)
                mine.bias.copy_(conv.bias)
        x = tokens()
        torch.testing.assert_close(ours.logits(ours.features(x)), theirs(x).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("tied", [True, False])
def test_llama_is_expressed_exactly(tied):
    transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'regard[export]'")
    torch.manual_seed(2)
    config = transformers.LlamaConfig(
        vocab_size=V, hidden_size=D, intermediate_size=HIDDEN, num_hidden_layers=L, num_attention_heads=H,
        num_key_value_heads=1, rms_norm_eps=1e-3, rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        tie_word_embeddings=tied, initializer_range=0.3,
    )  # fmt: skip
    theirs = transformers.LlamaForCausalLM(config).eval()
    ours = LanguageModel(
        V, D, H, L, feed_forward=HIDDEN, positions="rotary", rotary_base=100.0, norm_kind="rms", norm_eps=1e-3,
        activation="swiglu", bias=False, kv_heads=1, tied=tied,
    ).eval()  # fmt: skip
    state = theirs.model
    with torch.no_grad():
        ours.decoder.embedding.table.weight.copy_(state.embed_tokens.weight)
        ours.output.weight.copy_(theirs.lm_head.weight)
        ours.decoder.norm.weight.copy_(state.norm.weight)
        for block, layer in zip(ours.decoder.layers, state.layers, strict=True):
            attention, mlp = layer.self_attn, layer.mlp
            block.attention_norm.weight.copy_(layer.input_layernorm.weight)
            block.feed_forward_norm.weight.copy_(layer.post_attention_layernorm.weight)
            parts = (attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight)
            block.attention.project.weight.copy_(torch.cat(parts))
            block.attention.out.weight.copy_(attention.o_proj.weight)
            block.feed_forward.widen.weight.copy_(torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]))
            block.feed_forward.narrow.weight.copy_(mlp.down_proj.weight)
        x = tokens()
        torch.testing.assert_close(ours.logits(ours.features(x)), theirs(x).logits, atol=1e-5, rtol=1e-5)


KINDS = {
    "gpt2": {},
    "llama": {"positions": "rotary", "norm_kind": "rms", "activation": "swiglu", "kv_heads": 1, "bias": False},
    "alibi": {"positions": "alibi"},
}


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_prompt_read_at_once_and_steps_after_it_equal_the_whole(kind):
    torch.manual_seed(3)
    model = LanguageModel(V, D, H, L, max_length=13, feed_forward=HIDDEN, **KINDS[kind]).double().eval()
    x = tokens(rows=3)
    whole = model.features(x)
    features, state = model.read(x[:, :5], model.start(3, places=7))  # smaller than the text: it has to grow
    torch.testing.assert_close(features, whole[:, 4])
    features, state = model.read(x[:, 5:7], state)
    torch.testing.assert_close(features, whole[:, 6])
    rows = torch.tensor([2, 0])
    state = state.select(rows)
    for t in range(7, 11):
        features, state = model.step(x[rows, t], state)
        torch.testing.assert_close(features, whole[rows, t])


def test_a_room_that_is_stepped_from_twice_is_copied():
    one, other = (KeyValue(torch.full((1, 1, 1, 2), n), torch.full((1, 1, 1, 3), n)) for n in (1.0, 2.0))
    start = PreallocatedCache.empty(torch.empty(0), 1, 1, 2, 2, 3)
    first, second = start.append(one), start.append(other)
    assert first.taken.key.unique().tolist() == [1.0]
    assert second.taken.value.unique().tolist() == [2.0]
    third = first.append(other)
    assert third.key is first.key  # the usual way copies nothing
