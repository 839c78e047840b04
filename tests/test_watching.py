"""Any PyTorch model, watched: the weights that eager attention returns, and outputs that do not change by a bit."""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right

from regard import look
from regard.cli import cli
from regard.errors import CallError
from regard.look.watch import look_at_folder
from regard.look.watched import Watched

IDS = torch.tensor([[5, 9, 3, 14, 8, 6, 21], [7, 4, 11, 12, 10, 0, 0]])
MASK = (IDS != 0).long()
WRITTEN = torch.tensor([[2, 8, 13, 4, 6], [2, 5, 7, 9, 3]])
IMAGE = torch.linspace(-1, 1, 2 * 3 * 12 * 12).reshape(2, 3, 12, 12)
TEXT = {"input_ids": IDS, "attention_mask": MASK}
BOTH = {**TEXT, "decoder_input_ids": WRITTEN}
SMALL = {"vocab_size": 30, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 20}
VISION = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20, "image_size": 12,
    "patch_size": 4,
}  # fmt: skip
TEXT_SIDE = {**SMALL, "num_hidden_layers": 2, "max_position_embeddings": 20}
MARIAN = {
    "vocab_size": 30, "d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "pad_token_id": 0,
    "decoder_start_token_id": 2, "eos_token_id": 1, "forced_eos_token_id": 1, "bos_token_id": None,
}  # fmt: skip


class Family(NamedTuple):
    """A model of transformers, what it is given, and which of its outputs has the weights of which kind."""

    model: str
    config: Callable[[Any], Any]
    inputs: dict[str, torch.Tensor]
    outputs: dict[str, Callable[[Any], Any]]


def sides(encoder: str = "encoder_attentions") -> dict[str, Callable[[Any], Any]]:
    return {
        "encoder": lambda out: getattr(out, encoder),
        "decoder": lambda out: out.decoder_attentions,
        "cross": lambda out: out.cross_attentions,
    }


FAMILIES = {
    "bert": Family("BertModel", lambda t: t.BertConfig(**SMALL), TEXT, {"encoder": lambda out: out.attentions}),
    "albert": Family(  # one layer that works three times
        "AlbertModel", lambda t: t.AlbertConfig(**SMALL, embedding_size=8), TEXT,
        {"encoder": lambda out: out.attentions},
    ),
    "gpt2": Family(
        "GPT2LMHeadModel", lambda t: t.GPT2Config(vocab_size=30, n_embd=24, n_layer=3, n_head=4, n_positions=16),
        TEXT, {"decoder": lambda out: out.attentions},
    ),
    "llama": Family(  # four heads share two keys
        "LlamaForCausalLM", lambda t: t.LlamaConfig(**SMALL, num_key_value_heads=2), TEXT,
        {"decoder": lambda out: out.attentions},
    ),
    "mistral": Family(  # a window of three
        "MistralForCausalLM", lambda t: t.MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=3), TEXT,
        {"decoder": lambda out: out.attentions},
    ),
    "t5": Family(  # positions are added to the scores
        "T5ForConditionalGeneration",
        lambda t: t.T5Config(
            vocab_size=30, d_model=24, d_kv=6, num_layers=2, num_heads=4, d_ff=20, decoder_start_token_id=0
        ),
        BOTH, sides(),
    ),
    "marian": Family("MarianMTModel", lambda t: t.MarianConfig(**MARIAN), BOTH, sides()),
    "whisper": Family(
        "WhisperForConditionalGeneration",
        lambda t: t.WhisperConfig(**MARIAN, num_mel_bins=8, max_source_positions=6, max_target_positions=16),
        {"input_features": torch.linspace(-2, 2, 2 * 8 * 12).reshape(2, 8, 12), "decoder_input_ids": WRITTEN}, sides(),
    ),
    "vit": Family(
        "ViTModel", lambda t: t.ViTConfig(**VISION), {"pixel_values": IMAGE}, {"encoder": lambda out: out.attentions}
    ),
    "clip": Family(
        "CLIPModel",
        lambda t: t.CLIPConfig(text_config={**TEXT_SIDE, "eos_token_id": 1}, vision_config=VISION),
        {**TEXT, "pixel_values": IMAGE},
        {
            "encoder": lambda out: out.vision_model_output.attentions,
            "decoder": lambda out: out.text_model_output.attentions,  # CLIP's texts are read backwards
        },
    ),
    "blip": Family(
        "BlipForConditionalGeneration",
        lambda t: t.BlipConfig(
            text_config={**TEXT_SIDE, "encoder_hidden_size": 24, "bos_token_id": 2, "sep_token_id": 1},
            vision_config=VISION,
        ),
        {**TEXT, "pixel_values": IMAGE}, {"encoder": lambda out: out.attentions},
    ),
}  # fmt: skip


def pair(family: Family) -> dict[str, nn.Module]:
    """The same weights, with the fused kernel and in the open. Large ones, so that attention is not uniform."""
    transformers = pytest.importorskip("transformers", reason="parity needs transformers: pip install 'regard[dev]'")
    found = {}
    for way in ("sdpa", "eager"):
        torch.manual_seed(0)
        kind = getattr(transformers, family.model)
        try:
            model = kind._from_config(family.config(transformers), attn_implementation=way).eval()
        except ValueError:  # a model that has no fused attention
            continue
        for weight in model.parameters():
            nn.init.normal_(weight, std=0.3) if weight.dim() > 1 else None
        found[way] = model
    return found


def of_kind(seen: Watched, kind: str) -> list[torch.Tensor]:
    return [table.weights for table in seen.tables().values() if table.kind == kind]


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_are_those_of_eager_attention_and_outputs_the_same_to_the_last_bit(name):
    family = FAMILIES[name]
    models = pair(family)
    with torch.no_grad():
        truth = models["eager"](**family.inputs, output_attentions=True)
    for way, model in models.items():
        assert model.config._attn_implementation == way
        with torch.inference_mode():
            plain = model(**family.inputs)
            with look.watching(model) as seen:
                watched = model(**family.inputs)
        for key, value in plain.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(watched[key], value), key
        for kind, weights_of in family.outputs.items():
            theirs, ours = weights_of(truth), of_kind(seen, kind)
            assert len(ours) == len(theirs) > 1
            for own, other in zip(ours, theirs, strict=True):
                real = MASK.bool() if own.shape[-2] == IDS.shape[1] else torch.ones(2, own.shape[-2], dtype=torch.bool)
                rows = real[:, None, :, None].expand_as(other)  # of padding, the kernels and eager say different things
                torch.testing.assert_close(own[rows], other[rows], atol=1e-5, rtol=1e-4)


def heads_of(layer: nn.MultiheadAttention, x: torch.Tensor, memory: torch.Tensor, **masks: Any) -> torch.Tensor:
    return layer(x, memory, memory, average_attn_weights=False, **masks)[1]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("way", ["train", "grad", "fast", "padded"])
def test_the_encoder_of_torch_keeps_its_fast_path(way, norm_first):
    """`padded`: nn.TransformerEncoder makes rows of their own lengths of the batch, and one kernel does a layer."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(24, 4, 20, dropout=0.0, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2).train(way == "train")
    x, mask = torch.randn(2, 7, 24), MASK == 0
    given = {"src_key_padding_mask": mask} if way == "padded" else {}
    with torch.set_grad_enabled(way in ("train", "grad")):
        plain = model(x, **given)
        with look.watching(model) as seen:
            assert torch.equal(model(x, **given), plain)
    first = model.layers[0]
    state = first.norm1(x) if norm_first else x
    truth = heads_of(first.self_attn, state, state, key_padding_mask=mask if given else None)
    rows = (~mask if given else torch.ones_like(mask))[:, None, :, None].expand_as(truth)
    assert seen.names == ["layers.0.self_attn", "layers.1.self_attn"]
    torch.testing.assert_close(seen["layers.0.self_attn"][rows], truth[rows])
    assert seen.record(rows=list("abcdefg")).kinds == ["encoder"]
    if given:
        assert seen.record(rows=list("abcde"), example=1).attentions[1].weights.shape == (4, 5, 5)


@pytest.mark.parametrize("batch_first", [False, True])
def test_the_decoder_of_torch(batch_first):
    torch.manual_seed(0)
    model = nn.Transformer(24, 4, 1, 2, 20, dropout=0.0, batch_first=batch_first).eval()
    x, y = torch.randn(2, 7, 24), torch.randn(2, 5, 24)
    given = (x, y) if batch_first else (x.transpose(0, 1), y.transpose(0, 1))
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    plain = model(*given, tgt_mask=causal, tgt_is_causal=True)
    with look.watching(model) as seen:
        assert torch.equal(model(*given, tgt_mask=causal, tgt_is_causal=True), plain)
    truth = heads_of(model.decoder.layers[0].self_attn, given[1], given[1], attn_mask=causal)
    torch.testing.assert_close(seen["decoder.layers.0.self_attn"], truth)
    record = seen.record(rows=list("abcde"), columns=list("tuvwxyz"))
    assert [(one.kind, one.layer, *one.weights.shape) for one in record.attentions] == [
        ("cross", 0, 4, 5, 7), ("cross", 1, 4, 5, 7), ("encoder", 0, 4, 7, 7), ("decoder", 0, 4, 5, 5),
        ("decoder", 1, 4, 5, 5),
    ]  # fmt: skip


class Own(nn.Module):
    """A model that somebody wrote: whatever `how` makes of queries, keys and values."""

    def __init__(self, how: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.how = how

    def forward(self, query: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        return self.how(query, memory, memory)


class VisionAttention(nn.Module):
    """As timm's: one product for queries, keys and values, norms of heads, fused or in the open."""

    def __init__(self, width: int, heads: int, *, fused: bool) -> None:
        super().__init__()
        self.num_heads, self.scale, self.fused_attn = heads, (width // heads) ** -0.5, fused
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.q_norm, self.k_norm = nn.LayerNorm(width // heads), nn.LayerNorm(width // heads)
        self.attn_drop, self.proj_drop = nn.Dropout(0.1), nn.Dropout(0.1)
        self.kept: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_drop.p if self.training else 0.0)
        else:
            self.kept = (q * self.scale @ k.transpose(-2, -1)).softmax(dim=-1)
            x = self.attn_drop(self.kept) @ v
        return self.proj_drop(self.proj(x.transpose(1, 2).reshape(B, N, C)))


@pytest.mark.parametrize("autocast", [False, True])
def test_attention_as_timm_writes_it(autocast):
    torch.manual_seed(0)
    fused, eager = (
        nn.Sequential(*(VisionAttention(24, 3, fused=way) for _ in range(2))).eval() for way in (True, False)
    )
    eager.load_state_dict(fused.state_dict())
    x = torch.randn(2, 7, 24)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        eager(x)
        for model in (fused, eager):
            plain = model(x)
            with look.watching(model) as seen:
                assert torch.equal(model(x), plain)
            for number, layer in enumerate(eager):
                close = 0.02 if autocast else 1e-5
                torch.testing.assert_close(seen[str(number)], layer.kept.float(), atol=close, rtol=close)
    assert seen.record(rows=list("abcdefg")).kinds == ["encoder"]


def test_a_model_of_timm():
    timm = pytest.importorskip("timm", reason="needs timm: pip install timm, which installs torchvision")
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, num_classes=0).eval()
    with torch.inference_mode():
        plain = model(torch.ones(1, 3, 32, 32))
        with look.watching(model) as seen:
            assert torch.equal(model(torch.ones(1, 3, 32, 32)), plain)
        block = model.blocks[0].attn
        block.fused_attn = False
        with look.watching(model) as eager:
            model(torch.ones(1, 3, 32, 32))
    torch.testing.assert_close(seen["blocks.0.attn"], eager["blocks.0.attn"], atol=1e-5, rtol=1e-4)


SCALE = 24**-0.5
BIAS = torch.linspace(-2, 2, 5 * 7).reshape(5, 7)
OWN: dict[str, Callable[..., torch.Tensor]] = {
    "softmax": lambda q, k, v: torch.matmul(F.dropout((q @ k.mT * SCALE + BIAS).softmax(-1), 0.5, True), v),
    "einsum": lambda q, k, v: torch.einsum(
        "bqk,bkd->bqd", nn.Softmax(-1)(torch.einsum("bqd,bkd->bqk", q, k) * SCALE + BIAS), v
    ),
    "additive mask": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=BIAS),
    "gqa": lambda q, k, v: F.scaled_dot_product_attention(
        *(x.unflatten(-1, (h, -1)).transpose(1, 2) for x, h in ((q, 4), (k[..., :12], 2), (v[..., :12], 2))),
        attn_mask=BIAS, enable_gqa=True,
    ),
    "causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "lower right": lambda q, k, v: F.scaled_dot_product_attention(
        *(x[:, None] for x in (q, k, v)), attn_mask=causal_lower_right(5, 7)
    ),
    "nothing to see": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, attn_mask=torch.arange(5)[:, None] > torch.zeros(7)
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", OWN)
def test_weights_of_ones_own_model(how):
    torch.manual_seed(0)
    model, query, memory = Own(OWN[how]), torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    with look.watching(model) as seen:
        model(query, memory)
    heads, wide = (4, 6) if how == "gqa" else (1, 24)
    q, k = query.unflatten(-1, (heads, wide)).transpose(1, 2), memory[:, None]
    if how == "gqa":
        k = memory[..., :12].unflatten(-1, (2, 6)).transpose(1, 2).repeat_interleave(2, dim=1)
    scores = q @ k.mT * wide**-0.5
    allowed = {
        "causal": torch.ones(5, 7).tril().bool(),
        "lower right": torch.ones(5, 7).tril(2).bool(),
        "nothing to see": torch.arange(5)[:, None] > torch.zeros(7),
    }.get(how)
    scores = scores + BIAS if allowed is None else scores.masked_fill(~allowed, -torch.inf)
    torch.testing.assert_close(seen["Own"], scores.softmax(-1).nan_to_num(0.0))
    assert seen.record(rows=list("abcde"), columns=list("tuvwxyz")).kinds == ["cross"]


class Windows(nn.Module):
    """As in Swin and SegFormer: a mask among the arguments, and fewer keys than queries."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every

    def forward(self, x: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        keys = x[:, :: self.every]
        return F.scaled_dot_product_attention(x, keys, keys, attn_mask=attention_mask[:, :, :: self.every])


@pytest.mark.parametrize("every", [1, 2])
def test_a_mask_is_nothing_to_look_at_and_keys_may_be_fewer(every):
    model = Windows(every)
    with look.watching(model) as seen:
        model(torch.randn(2, 6, 8), torch.zeros(1, 6, 6))
    columns = {} if every == 1 else {"columns": list("xyz")}
    assert seen.record(rows=list("abcdef"), **columns).kinds == ["encoder"]


@pytest.mark.parametrize("flash", [False, True])
def test_x_transformers(flash):
    x_transformers = pytest.importorskip("x_transformers", reason="pip install 'regard[dev]'")
    torch.manual_seed(0)
    model = x_transformers.XTransformer(
        dim=24, enc_num_tokens=30, enc_depth=2, enc_heads=4, enc_max_seq_len=9, dec_num_tokens=30, dec_depth=2,
        dec_heads=4, dec_max_seq_len=9, enc_attn_flash=flash, dec_attn_flash=flash, dec_attn_dim_head=8,
    ).eval()  # fmt: skip
    with torch.no_grad(), look.watching(model) as seen:
        model(IDS, WRITTEN)
        memory = model.encoder(IDS, return_embeddings=True)
        _, inside = model.decoder.net(WRITTEN[:, :-1], context=memory, return_intermediates=True)
    record = seen.record(rows=list("abcd"), columns=list("tuvwxyz"))
    assert [(one.kind, one.layer) for one in record.attentions] == [
        ("cross", 0), ("cross", 1), ("encoder", 0), ("encoder", 1), ("decoder", 0), ("decoder", 1)
    ]  # fmt: skip
    if not flash:  # flash attention of x-transformers returns no weights
        theirs = [one.post_softmax_attn for one in inside.attn_intermediates]
        ours = [table.weights for name, table in seen.tables().items() if name.startswith("decoder")]
        for own, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(own, other)


@pytest.mark.parametrize("name", ["gpt2", "mistral", "marian", "t5"])
@pytest.mark.parametrize("use_cache", [True, False])
def test_steps_of_generate_are_joined(name, use_cache):
    models = pair(FAMILIES[name])
    given = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "pad_token_id": 0, "use_cache": use_cache}
    model = models["sdpa"]
    with look.watching(model) as seen:
        written = model.generate(IDS[:1], **given)[:, :-1]  # the last one is never read
    assert torch.equal(model.generate(IDS[:1], **given)[:, :-1], written)
    text = {"input_ids": IDS[:1], "decoder_input_ids": written} if name in ("marian", "t5") else {"input_ids": written}
    truth = models["eager"](**text, output_attentions=True)
    for kind, weights_of in FAMILIES[name].outputs.items():
        for own, other in zip(of_kind(seen, kind), weights_of(truth), strict=True):
            torch.testing.assert_close(own, other, atol=1e-5, rtol=1e-4)
    if "decoder_input_ids" not in text and use_cache:
        assert seen.record(rows=list("abcdefghijk")).kinds == ["decoder"]
        with pytest.raises(CallError, match=r"12 rows do not fit.* 11 × 11.*never read"):
            seen.record(rows=list("abcdefghijkl"))


def test_a_search_with_beams_is_refused():
    model = pair(FAMILIES["marian"])["sdpa"]
    with look.watching(model) as seen:
        model.generate(IDS[:1], max_new_tokens=4, num_beams=3)
    with pytest.raises(CallError, match=r"batches of 1 and of 3 examples.*beams"):
        seen.record()


def test_only_what_was_asked_for_is_computed():
    family = FAMILIES["bert"]
    model = pair(family)["sdpa"]
    with torch.no_grad():
        with look.watching(model) as whole:
            model(**TEXT)
        with look.watching(model, only="encoder.layer.2.*", heads=[3, 1], rows=[-1, 2]) as seen:
            model(**TEXT)
    name = "encoder.layer.2.attention.self"
    assert seen.names == [name]
    assert [call.weights is None for call in seen.calls] == [True, True, False]
    torch.testing.assert_close(seen[name], whole[name][:, [3, 1]][:, :, [2, 6]])
    record = seen.record(rows=list("abcdefg"))
    assert [(one.layer, *one.weights.shape) for one in record.attentions] == [(2, 2, 2, 7)]
    assert record.matrix().rows.labels == ["c", "g"]
    assert record.matrix().columns.labels == list("abcdefg")


def test_under_autocast():
    family = FAMILIES["llama"]
    models = pair(family)
    truth = models["eager"](**TEXT, output_attentions=True).attentions
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        plain = models["sdpa"](**TEXT).logits
        with look.watching(models["sdpa"]) as seen:
            assert torch.equal(models["sdpa"](**TEXT).logits, plain)
    rows = MASK.bool()[:, None, :, None].expand_as(truth[0])
    torch.testing.assert_close(of_kind(seen, "decoder")[0][rows], truth[0][rows], atol=0.05, rtol=0.05)


def test_gradients_and_random_numbers_are_as_without():
    model = pair(FAMILIES["bert"])["sdpa"].train()

    def step() -> list[torch.Tensor]:
        torch.manual_seed(3)
        model.zero_grad()
        model(**TEXT).last_hidden_state.square().sum().backward()
        return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

    plain = step()
    with look.watching(model):
        watched = step()
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))


def test_a_compiled_model_is_refused():
    plain = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True))
    for model in (torch.compile(plain), nn.Sequential(torch.compile(plain))):
        with pytest.raises(CallError, match="compiled"), look.watching(model):
            pass
    x = torch.randn(2, 3, 8)
    with look.watching(plain.eval()) as seen:  # the one that it was made of
        plain(x)
    assert seen["0.self_attn"].shape == (2, 2, 3, 3)
    plain[0].compile()
    with pytest.raises(CallError, match="0 is compiled"), look.watching(plain):
        pass


def test_another_thread_and_another_model_are_not_seen():
    model, other = Own(OWN["softmax"]), Own(OWN["softmax"])
    given = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    with look.watching(model) as seen:
        other(*given)
        thread = threading.Thread(target=model, args=given)
        thread.start()
        thread.join()
        assert seen.calls == []
        model(*given)
    assert len(seen.calls) == 1


def test_an_error_of_the_model_leaves_nothing_behind():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 2).eval()
    x = torch.randn(2, 3, 8)
    with torch.no_grad():
        plain = model(x)
        with look.watching(model) as seen:
            with pytest.raises(RuntimeError):
                model(torch.randn(2, 3, 9))
            assert torch.equal(model(x), plain)
        assert torch.equal(model(x), plain)
    assert seen["layers.1.self_attn"].shape == (2, 2, 3, 3)
    assert not torch.overrides._get_current_function_mode_stack()
    assert not nn.modules.module._global_forward_hooks


class Unseen(nn.Module):
    class SecretAttention(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.cumsum(1)

    def __init__(self) -> None:
        super().__init__()
        self.mix = self.SecretAttention()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mix(x).softmax(-1)  # of an answer, which is no attention


def test_what_was_not_watched_is_said():
    x = torch.randn(2, 5, 8)
    with look.watching(Unseen()) as seen:
        pass
    with pytest.raises(CallError, match="no attention of this model ran"):
        seen.record()
    model = Unseen()
    with look.watching(model) as seen:
        model(x)
    with pytest.raises(CallError, match="mix ran, but not by scaled_dot_product_attention"):
        seen.record()
    own = Own(OWN["softmax"])
    given = torch.randn(2, 5, 24), torch.randn(2, 7, 24)
    for wish, said in (({"only": "nobody"}, "none of the attentions that ran: Own"), ({"rows": [9]}, "longest had 5")):
        with look.watching(own, **wish) as seen:
            own(*given)
        with pytest.raises(CallError, match=said):
            seen.record()
    with (
        pytest.raises(CallError, match=r"heads=\[1\]: this attention has the heads 0 to 0"),
        look.watching(own, heads=[1]),
    ):
        own(*given)


def test_tokens_that_do_not_fit_are_an_error():
    family = FAMILIES["clip"]
    model = pair(family)["sdpa"]
    with torch.no_grad(), look.watching(model) as seen:
        model(**family.inputs)
    assert seen.record(rows=list("abcdefg")).kinds == ["decoder"]
    assert seen.record(rows=look.axis(["[CLS]", *"abcdefghi"], grid=(3, 3))).kinds == ["encoder"]
    sizes = r"vision_model.*\(encoder\) 10 × 10"
    with pytest.raises(CallError, match=f"8 rows do not fit.*{sizes}"):
        seen.record(rows=list("abcdefgh"))
    with pytest.raises(CallError, match=f"give rows=.*{sizes}"):
        seen.record()
    with pytest.raises(CallError, match=f"7 rows and 4 columns do not fit.*{sizes}"):
        seen.record(rows=list("abcdefg"), columns=list("abcd"))
    with pytest.raises(CallError, match="example=2 is not one of 0 to 1"):
        seen.record(rows=list("abcdefg"), example=2)
    with pytest.raises(CallError, match="only='nobody' is none"):
        seen.record(rows=list("abcdefg"), only="nobody")
    assert seen.record(rows=list("abcdefg"), kinds={"text_*": "encoder"}).kinds == ["encoder"]
    with pytest.raises(CallError, match="'dec'} must be one of cross"):
        seen.record(rows=list("abcdefg"), kinds={"text_*": "dec"})


def test_a_record_of_it_is_drawn_like_any_other(tmp_path):
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 2).eval()
    with torch.no_grad(), look.watching(model) as seen:
        model(torch.randn(1, 3, 8))
    record = seen.record(rows=["the", "red", "house"])
    for suffix in ("html", "png", "npz"):
        assert record.save(tmp_path / f"look.{suffix}").stat().st_size > 1000
    np.testing.assert_array_equal(look.load(tmp_path / "look.npz").attentions[1].weights, record.attentions[1].weights)
    look.show(record, view="grid")
    assert look.card(record.matrix(), record)[0].value <= np.log2(3)


def test_the_block_in_the_docs_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(look.__file__).parents[3] / "docs" / "look.md").read_text(encoding="utf-8")
    block = re.search(r"## Any other PyTorch model\n.*?```python\n(.*?)```", text, re.S)
    assert block is not None
    names: dict[str, Any] = {}
    exec(block[1], names)
    assert names["seen"].names == ["layers.0.self_attn", "layers.1.self_attn"]
    assert (tmp_path / "look.html").stat().st_size > 1000


def words_folder(folder: Path, model: Any) -> Path:
    """A model of transformers with a tokenizer of a few words."""
    transformers = pytest.importorskip("transformers", reason="pip install 'regard[dev]'")
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers: pip install tokenizers")
    words = ["<pad>", "</s>", "<unk>", "the", "red", "house", "dog", "la", "casa", "roja"]
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: n for n, word in enumerate(words)}, "<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **special).save_pretrained(folder)
    model.eval().save_pretrained(folder)
    return folder


def test_a_folder_that_import_does_not_know(tmp_path, capsys):
    transformers = pytest.importorskip("transformers", reason="pip install 'regard[dev]'")
    torch.manual_seed(1)
    alone = transformers.GPTNeoXModel(transformers.GPTNeoXConfig(**{**SMALL, "num_hidden_layers": 2}))
    record = look_at_folder(words_folder(tmp_path / "alone", alone), "the red house")
    alone.set_attn_implementation("eager")
    expected = alone(torch.tensor([[3, 4, 5]]), output_attentions=True).attentions
    assert record.kinds == ["decoder"]
    for one, weights in zip(record.of_kind("decoder"), expected, strict=True):
        np.testing.assert_allclose(one.weights, weights[0].detach(), atol=1e-5)
    both = transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=10, d_model=16, d_kv=4, d_ff=20, num_layers=1, num_heads=2, decoder_start_token_id=0
        )
    )
    folder = words_folder(tmp_path / "both", both)
    record = look_at_folder(folder, "the red house", "la casa roja")
    assert record.axes["target"].labels == ["<pad>", "la", "casa"]
    assert record.axes["source"].labels == ["the", "red", "house"]
    assert set(record.kinds) == {"cross", "encoder", "decoder"}
    assert "cross" in look_at_folder(folder, "the red house").kinds
    cli.main(["look", f"hf:{folder}", "the red house", "--target", "la casa roja"], standalone_mode=False)
    assert "casa" in capsys.readouterr().out
    for arguments, said in (
        (["--method", "gradient"], "not supported for a Transformers model"),
        (["--explain", "lens"], "need a run of regard"),
    ):
        with pytest.raises(CallError, match=said):
            cli.main(["look", f"hf:{folder}", "the red house", *arguments], standalone_mode=False)
    with pytest.raises(CallError, match=r"no config\.json"):
        look_at_folder(tmp_path, "the red house")
