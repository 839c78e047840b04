"""GPT-2, Llama and GGUF: the logits and the tokens of transformers, and quick steps that say the same as the others."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Inner
from tokenizers import decoders, models, pre_tokenizers, trainers

import regard
from regard.attention import HeadMask
from regard.commands.tools import import_model
from regard.decoders.transformer import TransformerState
from regard.errors import CallError, RegardError
from regard.models.language_model import LanguageModel

transformers = pytest.importorskip("transformers", reason="parity needs transformers: pip install 'regard[dev]'")

TEXT = "a tired dog slept, and 1234 dogs slept. Größe!\n"


def byte_pairs(*, digits=False):
    """A byte-level BPE with one special token at its end, as GPT-2 has it."""
    inner = Inner(models.BPE())
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), cut]) if digits else cut
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        [TEXT] * 3, trainers.BpeTrainer(vocab_size=275, initial_alphabet=alphabet, show_progress=False)
    )
    inner.add_special_tokens(["<|endoftext|>"])
    return inner


def randomise(model):
    torch.manual_seed(2)
    for parameter in model.parameters():  # fresh ones have biases of 0 and norms of 1, which would hide mistakes
        torch.nn.init.normal_(parameter, mean=0.1, std=0.25)
    model.tie_weights()
    return model.eval()


def gpt2(folder):
    inner = byte_pairs()
    size, end = inner.get_vocab_size(), inner.token_to_id("<|endoftext|>")
    settings = transformers.GPT2Config(
        vocab_size=size, n_embd=12, n_layer=2, n_head=3, n_inner=20, n_positions=31, bos_token_id=end, eos_token_id=end
    )
    model = randomise(transformers.GPT2LMHeadModel(settings))
    model.save_pretrained(folder)
    inner.save(str(folder / "tokenizer.json"))
    return model


def llama(folder, **changes):
    inner = byte_pairs(digits=True)
    settings = {
        "vocab_size": inner.get_vocab_size() + 3, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 37, "rms_norm_eps": 1e-4,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "tie_word_embeddings": False,
        "bos_token_id": None, "eos_token_id": inner.token_to_id("<|endoftext|>"),
    }  # fmt: skip
    model = randomise(transformers.LlamaForCausalLM(transformers.LlamaConfig(**(settings | changes))))
    model.save_pretrained(folder)
    inner.save(str(folder / "tokenizer.json"))
    return model


FAMILIES = {"gpt2": gpt2, "llama": llama}


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_tokens_and_attention_are_those_of_transformers(family, tmp_path):
    theirs = FAMILIES[family](tmp_path / "hf")
    assert import_model(str(tmp_path / "hf"), tmp_path / "run").job == "generate"
    run = regard.load(tmp_path / "run")
    cut = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "hf" / "tokenizer.json"))
    tokens = cut(TEXT)["input_ids"]
    assert run.job.input.tokenizer.encode(TEXT) == tokens
    assert run.job.input.tokenizer.decode(tokens) == TEXT
    inputs = torch.tensor([tokens[:17], tokens[3:20]])
    assert isinstance(run.model, LanguageModel)
    with torch.no_grad():
        theirs.set_attn_implementation("eager")
        expected = theirs(inputs, output_attentions=True)
        assert (run.model.logits(run.model.features(inputs)) - expected.logits).abs().max() < 1e-4
    found = theirs.generate(
        inputs[:1], max_new_tokens=9, do_sample=False, eos_token_id=None, attention_mask=torch.ones_like(inputs[:1])
    )
    prompt, end = run.job.input.tokenizer.decode(tokens[:17]), run.job.input.tokenizer.specials.end
    new = found[0, 17:].tolist()
    new = new[: new.index(end)] if end in new else new
    assert run.predict(prompt, temperature=0, max_length=9).text == run.job.input.tokenizer.decode(new)
    assert len(new) > 3
    record = run.look(prompt)
    weights = expected.attentions[1][0].numpy()
    shown = record.of_kind("decoder")[1].weights[:, :17, :17]  # then comes what the model goes on with
    assert np.allclose(shown, weights[:, : shown.shape[1], : shown.shape[2]], atol=1e-5)


def test_gpt2_from_vocabulary_and_merges(tmp_path):
    """The two files that GPT-2 was published with give the tokens of the one."""
    gpt2(tmp_path / "hf")
    import_model(str(tmp_path / "hf"), tmp_path / "one")
    spec = json.loads((tmp_path / "hf" / "tokenizer.json").read_text())
    (tmp_path / "hf" / "tokenizer.json").unlink()
    entries = spec["model"]["vocab"] | {token["content"]: token["id"] for token in spec["added_tokens"]}
    (tmp_path / "hf" / "vocab.json").write_text(json.dumps(entries))
    merges = "".join(" ".join(pair) + "\n" for pair in spec["model"]["merges"])
    (tmp_path / "hf" / "merges.txt").write_text("#version: 0.2\n" + merges)
    import_model(str(tmp_path / "hf"), tmp_path / "two")
    one, two = (regard.load(tmp_path / name).job.input.tokenizer for name in ("one", "two"))
    assert one.encode(TEXT) == two.encode(TEXT)
    assert one.specials == two.specials
    assert one.specials.end == one.specials.start == entries["<|endoftext|>"]
    assert one.specials.pad is None


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"attention_bias": True}, "attention_bias=True is not supported"),
        ({"hidden_act": "gelu"}, "hidden_act='gelu' is not supported"),
        ({"head_dim": 8}, "head_dim=8 is not supported; only 4 is"),
        (
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}},
            "scaled rotary positions .'linear'.",
        ),
    ],
)
def test_a_llama_that_is_another_model_is_refused(changes, told, tmp_path):
    llama(tmp_path / "hf", **changes)
    with pytest.raises(CallError, match=told):
        import_model(str(tmp_path / "hf"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("family", FAMILIES)
def test_quick_steps_say_what_the_others_say(family, tmp_path):
    """One row in buffers: the quick way. Without it, and all at once: the same features."""
    FAMILIES[family](tmp_path / "hf")
    import_model(str(tmp_path / "hf"), tmp_path / "run")
    model = regard.load(tmp_path / "run").model
    assert isinstance(model, LanguageModel)
    tokens = torch.tensor([[5, 9, 31, 7, 7, 200, 3, 8, 90, 17, 4]])
    with torch.inference_mode():
        whole = model.features(tokens)[0]
        first, quick = model.read(tokens[:, :4], model.start(1, places=9))  # room for 9 of 11: it has to grow
        assert isinstance(quick, TransformerState)
        assert quick.single is not None
        plain, features, others = replace(quick, single=None), [first], [first]
        for token in tokens[0, 4:]:
            before = quick
            x, quick = model.step(token[None], quick)
            y, plain = model.step(token[None], plain)
            features.append(x)
            others.append(y)
            again, _ = model.step(token[None], before)  # a state is a value: stepping from it twice does no harm
            assert torch.allclose(again, x, atol=1e-5)
    assert torch.allclose(torch.cat(features), whole[3:], atol=1e-5)
    assert torch.allclose(torch.cat(others), whole[3:], atol=1e-5)
    with torch.inference_mode(), HeadMask({model.decoder.layers[1].attention: [2]}):
        _, state = model.read(tokens[:, :4], model.start(1, places=9))
        silenced, _ = model.step(tokens[0, 4:5], state)
        assert torch.allclose(silenced, model.features(tokens[:, :5])[:, -1], atol=1e-5)
    assert (silenced - features[1]).abs().max() > 1e-3, "a silent head is silent in quick steps, too"


# --------------------------------------------------------------------------------------------------------------- GGUF
def gguf_file(folder, theirs, file, **changes):
    """A Llama of Hugging Face as llama.cpp's converter writes it: other names, rows of queries and keys interleaved."""
    gguf = pytest.importorskip("gguf", reason="needs gguf: pip install 'regard[pretrained]'")
    settings, weights = theirs.config, theirs.state_dict()
    spec = json.loads((folder / "tokenizer.json").read_text())
    special = [token["content"] for token in spec["added_tokens"]]
    vocabulary = spec["model"]["vocab"] | {token["content"]: token["id"] for token in spec["added_tokens"]}
    names = sorted(vocabulary, key=vocabulary.__getitem__)
    writer = gguf.GGUFWriter(file, changes.get("architecture", "llama"))
    writer.add_name("Tiny")
    writer.add_context_length(settings.max_position_embeddings)
    writer.add_embedding_length(settings.hidden_size)
    writer.add_block_count(settings.num_hidden_layers)
    writer.add_feed_forward_length(settings.intermediate_size)
    writer.add_head_count(settings.num_attention_heads)
    writer.add_head_count_kv(settings.num_key_value_heads)
    writer.add_layer_norm_rms_eps(settings.rms_norm_eps)
    writer.add_rope_freq_base(500.0)
    writer.add_rope_dimension_count(4)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(changes.get("pre", "smollm"))
    writer.add_token_list(names)
    writer.add_token_types([3 if name in special else 1 for name in names])
    writer.add_token_merges([" ".join(pair) for pair in spec["model"]["merges"]])
    writer.add_eos_token_id(vocabulary["<|endoftext|>"])
    parts = {
        "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
        "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    }  # fmt: skip
    for name, tensor in weights.items():
        stem = name.removesuffix(".weight")
        if stem.startswith("model.layers."):
            number, part = stem.removeprefix("model.layers.").split(".", 1)
            heads = {"self_attn.q_proj": 6, "self_attn.k_proj": 2}.get(part)
            if heads:  # a head's features 0 1 | 2 3 (halves) become 0 2 1 3 (neighbors)
                tensor = tensor.reshape(heads, 2, 2, -1).swapaxes(1, 2).reshape(tensor.shape)
            stem = f"blk.{number}.{parts[part]}"
        else:
            stem = parts[stem]
        writer.add_tensor(f"{stem}.weight", tensor.numpy())
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()


def test_a_gguf_file_is_the_model_it_was_made_of(tmp_path):
    theirs = llama(tmp_path / "hf")
    # No room is left over in this one: the list of tokens is as long as the table.
    file = tmp_path / "tiny.gguf"
    gguf_file(tmp_path / "hf", theirs, file)
    import_model(str(file), tmp_path / "run")
    run = regard.load(tmp_path / "run")
    tokens = run.job.input.tokenizer.encode(TEXT)
    cut = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "hf" / "tokenizer.json"))
    assert tokens == cut(TEXT)["input_ids"], "digits one by one, as the files of SmolLM2 have it"
    inputs = torch.tensor([tokens[:19]])
    assert isinstance(run.model, LanguageModel)
    with torch.no_grad():
        assert (run.model.logits(run.model.features(inputs)) - theirs(inputs).logits).abs().max() < 1e-4


def test_a_gguf_file_that_is_not_understood_says_why(tmp_path):
    theirs = llama(tmp_path / "hf")
    gguf_file(tmp_path / "hf", theirs, tmp_path / "other.gguf", architecture="falcon")
    with pytest.raises(CallError, match=r"general\.architecture='falcon' is not supported"):
        import_model(str(tmp_path / "other.gguf"), tmp_path / "run")
    gguf_file(tmp_path / "hf", theirs, tmp_path / "pre.gguf", pre="tekken")
    with pytest.raises(CallError, match="splits text by 'tekken', which is not supported"):
        import_model(str(tmp_path / "pre.gguf"), tmp_path / "run")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and then nothing")
    with pytest.raises(RegardError, match=r"broken\.gguf cannot be read"):
        import_model(str(tmp_path / "broken.gguf"), tmp_path / "run")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("how", [{}, {"lora": {"rank": 2}}])
def test_training_goes_on_from_what_was_imported(family, how, tmp_path):
    FAMILIES[family](tmp_path / "hf")
    import_model(str(tmp_path / "hf"), tmp_path / "run")
    (tmp_path / "text.txt").write_text(TEXT * 40)
    few = {"max_steps": 20, "max_epochs": None, "max_tokens": 120, "learning_rate": 3e-2, "warmup": 0, **how}
    before = regard.load(tmp_path / "run")
    after = regard.train(
        "language-model", data=str(tmp_path / "text.txt"), output=tmp_path / "tuned",
        start=str(tmp_path / "run"), model=None, training=few,
    )  # fmt: skip
    assert after.job.input.tokenizer.to_json() == before.job.input.tokenizer.to_json()
    assert after.model.output.weight.shape == before.model.output.weight.shape
    scores = [run.evaluate(test=str(tmp_path / "text.txt")).values["loss"] for run in (before, after)]
    assert scores[1] < scores[0] - 0.1
