"""Models with a head: classifiers of texts and of pictures, and readers, with the numbers of transformers."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.commands.tools import import_model
from regard.errors import CallError, RegardError

transformers = pytest.importorskip("transformers", reason="parity needs transformers: pip install 'regard[dev]'")

PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] a dog ##s sleep who ? was tired e ##t"
SIZES = {
    "vocab_size": 15, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20,
    "max_position_embeddings": 40,
}  # fmt: skip


def randomise(model, folder):
    torch.manual_seed(4)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.eval().save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(PIECES.split()) + "\n")
    return model


def test_a_classifier_of_texts(tmp_path):
    names = {0: "quiet", 1: "loud", 2: "asleep"}
    settings = transformers.BertConfig(**SIZES, id2label=names, label2id={name: index for index, name in names.items()})
    theirs = randomise(transformers.BertForSequenceClassification(settings), tmp_path / "hf")
    assert import_model(str(tmp_path / "hf"), tmp_path / "run").job == "classify"
    run = regard.load(tmp_path / "run")
    tokens = torch.tensor([[2, 6, 7, 8, 3]])
    with torch.no_grad():
        expected = theirs(tokens).logits.softmax(-1)[0]
    found = run.predict("Dogs sleep", n_best=3)
    assert [output.text for output in found.n_best] == [
        names[int(index)] for index in expected.argsort(descending=True)
    ]
    probabilities = [output.score for output in found.n_best]
    assert np.allclose(probabilities, expected.sort(descending=True).values.numpy(), atol=1e-5)
    assert run.look("Dogs sleep").matrix().weights.shape[-1] == 5


def test_a_tagger(tmp_path):
    settings = transformers.BertConfig(**SIZES, id2label={0: "N", 1: "V", 2: "D"})
    theirs = randomise(transformers.BertForTokenClassification(settings), tmp_path / "hf")
    assert import_model(str(tmp_path / "hf"), tmp_path / "run").job == "tag"
    found = regard.load(tmp_path / "run").predict("a dogs sleep")
    with torch.no_grad():
        expected = theirs(torch.tensor([[2, 5, 6, 7, 8, 3]])).logits[0, [1, 2, 4]].log_softmax(-1)
    assert found.tags == ["NVD"[index] for index in expected.argmax(1)]
    assert found.score == pytest.approx(float(expected.max(1).values.sum()), abs=1e-5)


def test_other_heads_are_not_taken_for_one_of_texts(tmp_path):
    randomise(transformers.BertForMultipleChoice(transformers.BertConfig(**SIZES)), tmp_path / "hf")
    with pytest.raises(CallError, match=r"architectures=\['BertForMultipleChoice'\] is not supported"):
        import_model(str(tmp_path / "hf"), tmp_path / "run")


def test_a_reader(tmp_path):
    theirs = randomise(transformers.BertForQuestionAnswering(transformers.BertConfig(**SIZES)), tmp_path / "hf")
    assert import_model(str(tmp_path / "hf"), tmp_path / "run").job == "answer"
    run = regard.load(tmp_path / "run")
    question, document = torch.tensor([[9, 12, 10]]), torch.tensor([[5, 6, 7, 11, 12, 8]])
    tokens = torch.tensor([[2, 9, 12, 10, 3, 5, 6, 7, 11, 12, 8, 3]])
    with torch.no_grad():
        expected = theirs(tokens, token_type_ids=torch.tensor([[0] * 5 + [1] * 7]))
        pointers = run.model.point(question, document)
    places = [0, *range(5, 11)]  # [CLS] stands for no answer
    assert (pointers.start - expected.start_logits[:, places]).abs().max() < 1e-5
    assert (pointers.end - expected.end_logits[:, places]).abs().max() < 1e-5
    start, end = expected.start_logits[0, 5:11], expected.end_logits[0, 5:11]
    table = (start[:, None] + end[None]).masked_fill(torch.ones(6, 6).tril(-1).bool(), -torch.inf)
    first, last = divmod(int(table.argmax()), 6)
    words = ["a", "dog", "s", "was", "tired", "sleep"]
    said = " ".join(words[first : last + 1]).replace("dog s", "dogs")
    found = run.predict(run.job.input.parse(["who tired ?\ta dogs was tired sleep"]))[0].text
    assert found == said


@pytest.mark.parametrize("normalized", [True, False])
def test_a_classifier_of_pictures(tmp_path, normalized):
    settings = transformers.ViTConfig(
        hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, image_size=[12, 18],
        patch_size=6, num_labels=5,
    )  # fmt: skip
    theirs = randomise(transformers.ViTForImageClassification(settings), tmp_path / "hf")
    mean, deviation = [0.4, 0.5, 0.6], [0.2, 0.3, 0.25]
    told = {"image_mean": mean, "image_std": deviation, "do_normalize": normalized, "rescale_factor": 1 / 255}
    (tmp_path / "hf" / "preprocessor_config.json").write_text(json.dumps(told))
    assert import_model(str(tmp_path / "hf"), tmp_path / "run").job == "classify"
    run = regard.load(tmp_path / "run")
    pixels = torch.randint(0, 256, (2, 3, 12, 18), generator=torch.Generator().manual_seed(5), dtype=torch.uint8)
    shift, scale = (
        torch.tensor(x).view(3, 1, 1) if normalized else unit for x, unit in ((mean, 0.0), (deviation, 1.0))
    )
    with torch.no_grad():
        expected = theirs((pixels / 255 - shift) / scale).logits
        assert (run.model.logits(pixels) - expected).abs().max() < 1e-4
    picture = pixels[0].permute(1, 2, 0).numpy()
    assert run.predict([picture])[0].text == f"LABEL_{int(expected[0].argmax())}"


def test_a_vision_transformer_that_is_not_understood(tmp_path):
    settings = transformers.ViTConfig(
        hidden_size=12, num_hidden_layers=1, num_attention_heads=3, intermediate_size=20, image_size=12, patch_size=6
    )
    randomise(transformers.ViTModel(settings), tmp_path / "hf")
    with pytest.raises(CallError, match="has no classifier: only"):
        import_model(str(tmp_path / "hf"), tmp_path / "run")
    weights = transformers.ViTForImageClassification(settings)
    randomise(weights, tmp_path / "hf")
    config = tmp_path / "hf" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"image_size": 24}))
    with pytest.raises(RegardError, match="does not hold the weights of this model"):
        import_model(str(tmp_path / "hf"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
