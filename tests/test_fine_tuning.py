"""Starting from another run: what is taken, what stays fixed, adapters, and exact resume of all of it."""

import json
import shutil
import time
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file
from torch import nn

import regard
from regard.errors import CallError, RegardError
from regard.models.language_model import LanguageModel, TextBatch
from regard.training.initial_weights import adapt, freeze, merge_adapters, save_adapters, start_from


def model(vocabulary: int = 11, seed: int = 1, **more) -> LanguageModel:
    torch.manual_seed(seed)
    return LanguageModel(vocabulary, 12, 3, 2, max_length=9, **more)


def state(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


# ------------------------------------------------------------------------------------------------------- weights
def test_all_that_fits_is_taken_and_the_rest_is_told():
    base, other = model(seed=1), model(seed=2, tied=False)
    weights = {name: value for name, value in state(base).items() if name != "output.weight"}  # as tied ones are saved
    weights["decoder.norm.weight"] = torch.ones(5)
    weights["head.weight"] = torch.ones(3)
    fresh = other.output.weight.detach().clone()
    taken = start_from(other, weights)
    assert torch.equal(
        other.decoder.layers[1].attention.project.weight, base.decoder.layers[1].attention.project.weight
    )
    assert torch.equal(other.output.weight, fresh)
    assert taken.new == {
        "decoder.norm.weight": "it is 12 here and 5 there", "output.weight": "the other run has no weight of this name",
    }  # fmt: skip
    assert taken.left == ["head.weight"]
    assert (
        taken.sentences("runs/base")[0]
        == f"{len(taken.whole)} of {len(taken.whole) + 2} weights are those of runs/base"
    )


def test_a_tied_weight_is_found_under_either_name():
    base, tied = model(seed=1, tied=False), model(seed=2)
    weights = {name: value for name, value in state(base).items() if name != "decoder.embedding.table.weight"}
    start_from(tied, weights)
    assert torch.equal(tied.decoder.embedding.table.weight, base.output.weight)


def test_rows_are_copied_by_token_where_the_vocabulary_changes():
    base, other = model(4, seed=1), model(5, seed=2)
    old, new = {"a": 0, "b": 1, "c": 2, "d": 3}, {"d": 0, "x": 1, "b": 2, "y": 3, "z": 4}
    fresh = other.output.weight.detach().clone()
    taken = start_from(other, state(base), [(old, new)])
    assert taken.rows == {"decoder.embedding.table.weight": (2, 5)}
    assert torch.equal(other.output.weight[[0, 2]], base.output.weight[[3, 1]])
    assert torch.equal(other.output.weight[[1, 3, 4]], fresh[[1, 3, 4]])


def test_a_run_that_has_nothing_in_common_is_refused():
    with pytest.raises(CallError, match="no weight of that run fits"):
        start_from(model(), {"encoder.weight": torch.ones(3)})


def test_frozen_parts_by_name_and_pattern():
    lm = model()
    frozen = freeze(lm, ["decoder.embedding", "*.attention.*"])
    assert {name for name, weight in lm.named_parameters() if not weight.requires_grad} == set(frozen)
    assert "decoder.embedding.table.weight" in frozen
    assert not any("feed_forward" in name for name in frozen)
    with pytest.raises(CallError, match=r"'encoder' names no weight"):
        freeze(lm, ["encoder"])
    with pytest.raises(CallError, match="nothing is left"):
        freeze(lm, ["*"])


# ------------------------------------------------------------------------------------------------------- adapters
def test_adapters_start_as_nothing_and_merge_to_what_they_compute(tmp_path):
    lm, batch = model(), TextBatch(torch.randint(4, 11, (2, 8), generator=torch.Generator().manual_seed(1)))
    before, old = lm(batch).total, state(lm)
    maps = adapt(lm, rank=2, alpha=3.0, targets=["*.project", "*.narrow"])
    assert maps == [
        f"decoder.layers.{n}.{part}" for n in (0, 1) for part in ("attention.project", "feed_forward.narrow")
    ]
    assert torch.equal(lm(batch).total, before)
    learning = [name for name, weight in lm.named_parameters() if weight.requires_grad]
    assert len(learning) == 8
    assert all(name.endswith((".A", ".B")) for name in learning)
    with torch.no_grad():
        for weight in lm.parameters():
            if weight.requires_grad:
                weight.normal_()
    plain = model(seed=3)
    plain.load_state_dict(merge_adapters(state(lm)))
    torch.testing.assert_close(plain(batch).total, lm(batch).total)
    part = lm.decoder.layers[0].attention.project.parametrizations.weight
    by_hand = old["decoder.layers.0.attention.project.weight"] + 1.5 * part[0].B @ part[0].A
    torch.testing.assert_close(plain.decoder.layers[0].attention.project.weight, by_hand)
    assert torch.equal(plain.decoder.layers[0].attention.out.weight, old["decoder.layers.0.attention.out.weight"])

    save_adapters(state(lm), tmp_path, "runs/base")
    saved = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert saved["base_model.model.decoder.layers.1.feed_forward.narrow.lora_A.weight"].shape == (2, 48)
    about = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (about["r"], about["lora_alpha"], about["base_model_name_or_path"]) == (2, 3.0, "runs/base")


def test_adapters_read_by_peft_give_the_same_numbers(tmp_path):
    peft = pytest.importorskip("peft", reason="needs peft: pip install 'regard[export]'")
    lm, batch = model(), TextBatch(torch.randint(4, 11, (2, 8), generator=torch.Generator().manual_seed(1)))
    base = model()
    adapt(lm, rank=2, alpha=3.0, targets=["*.widen", "*.narrow"])
    with torch.no_grad():
        for weight in lm.parameters():
            if weight.requires_grad:
                weight.normal_()
    save_adapters(state(lm), tmp_path, "")
    read = peft.PeftModel.from_pretrained(base, tmp_path / "adapter")
    torch.testing.assert_close(read(batch).total, lm(batch).total)


def test_maps_that_cannot_be_adapted_are_refused():
    with pytest.raises(CallError, match="match no linear map"):
        adapt(model(), 2, 2.0, ["*.nothing"])
    with pytest.raises(CallError, match="shares its weights with the embedding"):
        adapt(model(), 2, 2.0, ["output"])


# ------------------------------------------------------------------------------------------------- from run to run
RECIPE = """
job: generate
data: {train: text.txt, tokenizer: {kind: character}}
model: {layers: 1, width: 16, heads: 2, context: 12}
training: {max_steps: 6, max_epochs: null, max_tokens: 96, validate_every: 6, save_every: 3}
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "text.txt").write_text("the cat sat on the mat. " * 20)
    (folder / "other.txt").write_text("the xenial fox sat there; " * 20)
    regard.train(folder / "recipe.yaml", data=str(folder / "text.txt"), output=folder / "run")
    return folder


def tuned(base, output, start=None, model=None, **training):
    return regard.train(
        base / "recipe.yaml", data=str(base / "other.txt"), output=output,
        start=start or str(base / "run"), model=model, training=training,
    )  # fmt: skip


def test_adapters_from_run_to_run_resume_exactly_and_leave_an_ordinary_model(base, tmp_path, capsys):
    how = {"lora": {"rank": 2}, "freeze": ["*.narrow.*"], "model": {}}
    whole = tuned(base, tmp_path / "whole", **how)
    said = capsys.readouterr().err
    assert "weights are those of" in said
    assert "adapters of rank 2 for 4 linear maps" in said
    tuned(base, tmp_path / "parts", **how, max_steps=3)
    (base / "run").rename(base / "moved")  # a run that goes on needs nothing but itself
    try:
        tuned(base, tmp_path / "parts", **how)
    finally:
        (base / "moved").rename(base / "run")
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    before = load_file(base / "run" / "model.safetensors")
    assert one.keys() == other.keys() == before.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    changed = {name for name in one if not torch.equal(one[name], before[name])}
    assert changed == {
        f"decoder.layers.0.{name}.weight" for name in ("attention.project", "attention.out", "feed_forward.widen")
    }
    assert (tmp_path / "whole" / "adapter" / "adapter_model.safetensors").is_file()
    assert whole.job.input.tokenizer.to_json() == (base / "run" / "tokenizer.json").read_text()
    assert isinstance(whole.predict("the ", max_length=4).text, str)


def test_a_new_vocabulary_takes_over_the_tokens_that_both_have(base, tmp_path, capsys):
    run = tuned(base, tmp_path, start={"run": str(base / "run"), "vocabulary": "new"}, learning_rate=1e-9, warmup=0)
    old = regard.load(base / "run")
    assert "rows, by token; the others are new" in capsys.readouterr().err
    letter = {name: one.job.input.tokenizer.encode("t")[0] for name, one in (("old", old), ("new", run))}
    tables = {"old": old.model.output.weight, "new": run.model.output.weight}
    torch.testing.assert_close(tables["new"][letter["new"]], tables["old"][letter["old"]], atol=1e-6, rtol=0)
    assert run.job.input.tokenizer.decode(run.job.input.tokenizer.encode("xenial;")) == "xenial;"
    assert yaml.safe_load((tmp_path / "config.yaml").read_text())["model"]["width"] == 16  # model=null: the start's


@pytest.fixture
def stranger(base, tmp_path):
    """A run that was made by somebody else."""
    return Path(shutil.copytree(base / "run", tmp_path / "stranger"))


def test_a_run_of_a_stranger_learns_nothing_of_the_environment(base, stranger, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "do not tell")
    tree = yaml.safe_load((stranger / "config.yaml").read_text())
    (stranger / "config.yaml").write_text(yaml.safe_dump(tree | {"about": "${SECRET}"}))
    assert regard.load(stranger).recipe.about == "${SECRET}"
    (stranger / "config.yaml").write_text(yaml.safe_dump(tree | {"model": {"width": "${SECRET}"}}))
    with pytest.raises(CallError, match=r"\$\{SECRET\}") as refused:
        tuned(base, tmp_path / "new", start=str(stranger))
    assert "do not tell" not in str(refused.value)
    (stranger / "config.yaml").write_text(yaml.safe_dump(tree | {"extends": "/etc/passwd"}))
    with pytest.raises(CallError, match="extends: unknown key"):
        regard.load(stranger)


def test_weights_that_are_no_numbers_are_refused(base, stranger, tmp_path):
    weights = load_file(stranger / "model.safetensors")
    weights["decoder.norm.weight"][3] = torch.nan
    save_file(weights, stranger / "model.safetensors")
    with pytest.raises(RegardError, match=r"damaged: decoder\.norm\.weight contain NaN or infinity"):
        regard.load(stranger)
    with pytest.raises(RegardError, match=r"damaged: decoder\.norm\.weight"):
        tuned(base, tmp_path / "new", start=str(stranger))


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b'{"model": null}', b"[" * 100_000])
def test_a_broken_tokenizer_is_refused(stranger, content):
    (stranger / "tokenizer.json").write_bytes(content)
    with pytest.raises(RegardError, match=r"tokenizer\.json is not a tokenizer, or is damaged"):
        regard.load(stranger)


@pytest.mark.parametrize(
    ("section", "change", "said"),
    [
        ("model", {"width": 2 * 10**9}, "the model is too large"),
        ("model", {"width": 2 * 10**30}, "the model is too large"),
        ("model", {"layers": 10**6}, "more than 5,000 tables"),
        ("training", {"device": "meta"}, "training.device='meta': not a device to train on"),
        ("training", {"threads": 10**9}, "training.threads=1000000000"),
        ("training", {"seed": 2**64}, "training.seed="),
        ("training", {"learning_rate": float("inf")}, "training.learning_rate=inf"),
        ("decoding", {"n_best": 10**6}, "decoding.n_best=1000000"),
    ],
)
def test_what_no_machine_can_do_is_refused_at_once(stranger, section, change, said):
    tree = yaml.safe_load((stranger / "config.yaml").read_text())
    tree[section] |= change
    (stranger / "config.yaml").write_text(yaml.safe_dump(tree))
    begun = time.perf_counter()
    with pytest.raises(RegardError, match=said):
        regard.load(stranger)
    assert time.perf_counter() - begun < 30


def test_what_cannot_be_started_from_is_said(base, tmp_path):
    with pytest.raises(CallError, match=r"start=.*nowhere: no such run: .*nowhere"):
        tuned(base, tmp_path / "a", start=str(tmp_path / "nowhere"))
    with pytest.raises(CallError, match="name it with start=RUN"):
        regard.train(base / "recipe.yaml", data=str(base / "text.txt"), output=tmp_path / "b", training={"lora": {}})
