"""Marian: the logits and the tokens of transformers, in our order of vocabulary and features."""

import json

import pytest
import torch

import regard
from regard.commands.tools import import_model
from regard.errors import CallError, RegardError
from regard.models.seq2seq import Seq2Seq
from regard.pretrained import tokenizer_files

transformers = pytest.importorskip("transformers", reason="parity needs transformers: pip install 'regard[dev]'")
spm = pytest.importorskip("sentencepiece", reason="the test makes its own model: pip install sentencepiece")

ENGLISH = ["the dog sleeps", "a tired dog was sleeping", "who sleeps here, the dogs?", "dogs and cats, tired cats"]
GERMAN = ["der Hund schläft", "ein müder Hund schlief", "wer schläft hier, die Hunde?", "Hunde und Katzen, müde Katzen"]


def marian(folder, **changes):
    """Random weights; two SentencePiece models of their own, which share a vocabulary, as OPUS-MT has it."""
    folder.mkdir()
    for side, texts, size in (("source", ENGLISH, 41), ("target", GERMAN, 47)):
        (folder / f"{side}.txt").write_text("\n".join(texts * 5))
        spm.SentencePieceTrainer.train(
            input=str(folder / f"{side}.txt"), model_prefix=str(folder / side), vocab_size=size, model_type="unigram",
            hard_vocab_limit=False, bos_id=-1, eos_id=0, unk_id=1, minloglevel=2,
        )  # fmt: skip
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
    pieces = {}
    for side in ("source", "target"):
        model = spm.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        pieces |= {model.id_to_piece(index): None for index in range(model.get_piece_size())}
    names = ["</s>", "<unk>", *(name for name in pieces if name not in ("</s>", "<unk>")), ">>deu<<", "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: index for index, name in enumerate(names)}))
    settings = {
        "vocab_size": len(names), "d_model": 12, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 20,
        "decoder_ffn_dim": 20, "encoder_attention_heads": 3, "decoder_attention_heads": 3, "scale_embedding": True,
        "activation_function": "swish", "max_position_embeddings": 29, "pad_token_id": len(names) - 1,
        "eos_token_id": 0, "decoder_start_token_id": len(names) - 1, "forced_eos_token_id": None,
    }  # fmt: skip
    torch.manual_seed(3)
    model = transformers.MarianMTModel(transformers.MarianConfig(**(settings | changes))).eval()
    for name, parameter in model.named_parameters():
        if "embed_positions" not in name:
            torch.nn.init.normal_(parameter, std=0.3)
    torch.nn.init.normal_(model.final_logits_bias)
    model.save_pretrained(folder)
    tokenizer = transformers.MarianTokenizer(
        source_spm=str(folder / "source.spm"), target_spm=str(folder / "target.spm"), vocab=str(folder / "vocab.json")
    )
    return model, tokenizer, names


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian")
    theirs, cut, names = marian(folder / "hf")
    assert import_model(str(folder / "hf"), folder / "run").job == "translate"
    return theirs, cut, names, regard.load(folder / "run")


def test_logits_are_those_of_transformers(both):
    theirs, _, names, run = both
    order = ["<pad>", "<unk>", "<s>", "</s>", *(name for name in names if name not in ("<pad>", "<unk>", "</s>"))]
    rows = torch.tensor([names.index("<pad>" if name == "<s>" else name) for name in order])
    ours = {int(index): place for place, index in enumerate(rows) if order[place] != "<s>"}
    pad = len(names) - 1
    source = torch.tensor([[5, 9, 31, 7, 2, 0], [8, 12, 0, pad, pad, pad]])
    target = torch.tensor([[6, 40, 3, 22, 0], [33, 0, pad, pad, pad]])
    start = torch.full((2, 1), pad)
    assert isinstance(run.model, Seq2Seq)
    with torch.no_grad():
        expected = theirs(
            input_ids=source, attention_mask=(source != pad).long(),
            decoder_input_ids=torch.cat([start, target[:, :-1]], dim=1),
        ).logits  # fmt: skip
        there, wanted = (x.apply_(lambda index: ours[index]) for x in (source.clone(), target.clone()))
        logits = run.model.logits(run.model.features(run.model.encode(there), wanted))
    real = target != pad
    said = torch.tensor([place for place, name in enumerate(order) if name not in ("<pad>", "<s>")])
    assert (logits[..., said] - expected[..., rows[said]])[real].abs().max() < 1e-4
    assert logits[..., [0, 2]].max() < -5000, "padding and begin cannot be said"


@pytest.mark.parametrize(
    "text", [*ENGLISH, "  the   dogs ", "cats ﬁght 42 dogs", ">>deu<< the dog", "Katzen schlafen", "日本 dogs", ""]
)
def test_tokens_are_those_of_transformers(both, text):
    _, cut, _, run = both
    expected = [token for token in cut(text)["input_ids"] if token != cut.eos_token_id]
    assert run.job.input.tokenizer.pieces(run.job.input.tokenizer.encode(text)) == cut.convert_ids_to_tokens(expected)


def test_targets_are_cut_by_their_own_model_and_come_back(both):
    _, cut, _, run = both
    for text in GERMAN:
        ids = run.job.output.tokenizer.encode(text)
        expected = cut(text_target=text)["input_ids"][:-1]
        assert run.job.output.tokenizer.pieces(ids) == cut.convert_ids_to_tokens(expected)
        assert run.job.output.tokenizer.decode(ids) == text
    forged = run.job.input.tokenizer.encode("the </s> dog <s>")
    assert not {0, 2, 3} & set(forged), "text never becomes a special token"


def test_greedy_translation_is_that_of_transformers(both):
    theirs, cut, _, run = both
    for text in ENGLISH[:2]:
        found = theirs.generate(
            **cut(text, return_tensors="pt"), num_beams=1, do_sample=False, max_new_tokens=7,
            bad_words_ids=[[theirs.config.pad_token_id]],
        )  # fmt: skip
        expected = cut.convert_ids_to_tokens(found[0, 1:].tolist())
        expected = expected[: expected.index("</s>")] if "</s>" in expected else expected
        written = run.predict(text, beam=1, max_length=7).text
        assert written == "".join(expected).replace("▁", " ").strip(" ")
        assert run.look(text, beam=1, max_length=7).matrix("cross").weights.shape[1] > 1


def test_what_is_not_understood_is_named(tmp_path):
    marian(tmp_path / "hf", scale_embedding=False)
    with pytest.raises(CallError, match="scale_embedding=False is not supported; only True is"):
        import_model(str(tmp_path / "hf"), tmp_path / "run")
    config = tmp_path / "hf" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"scale_embedding": True}))
    (tmp_path / "hf" / "source.spm").write_bytes(b"\x0a\x05wrong and then nothing")
    with pytest.raises(RegardError, match=r"source\.spm is not a SentencePiece model"):
        import_model(str(tmp_path / "hf"), tmp_path / "run")
    (tmp_path / "hf" / "source.spm").unlink()
    with pytest.raises(CallError, match=r"has no source\.spm"):
        import_model(str(tmp_path / "hf"), tmp_path / "run")


def test_a_sentencepiece_model_of_merged_pairs_is_refused(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(ENGLISH * 5))
    spm.SentencePieceTrainer.train(
        input=str(tmp_path / "text.txt"), model_prefix=str(tmp_path / "bpe"), vocab_size=40, model_type="bpe",
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    with pytest.raises(CallError, match="only SentencePiece models of the kind unigram"):
        tokenizer_files.read(tmp_path / "bpe.model")
