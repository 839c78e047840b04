"""Runs with weights at random, in a moment: what tests of exports begin with. Nothing is trained."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jaxtyping
import torch
import yaml
from safetensors.torch import save_model
from torch.nn.utils import parametrize

import regard
from recipe_runs import small_corpora
from regard import config
from regard.api import Run
from regard.job import make_job
from regard.runs import train
from regard.settings.training import LoraSettings
from regard.training.initial_weights import adapt, save_adapters

LANGUAGE = {"layers": 2, "width": 32, "heads": 4, "context": 48}
ENCODER = {"layers": 2, "width": 32, "heads": 4, "feed_forward": 48}
BERT = {**ENCODER, "norm_first": False, "embedding_norm": True, "eps": 1e-12}
TRANSLATOR = {"width": 32, "heads": 4, "feed_forward": 48, "encoder_layers": 1, "decoder_layers": 2}
JOINT = {"tokenizer": {"joint": True, "size": 150}}
GPT2 = {**LANGUAGE, "size": None, "norm": "layer", "bias": True, "kv_heads": None}
_FOLDER = TemporaryDirectory(prefix="regard-exports-")

#: By a name of ours: the recipe, and what is changed in it.
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("language-model", {"model": LANGUAGE}),
    "llama of blocks": ("language-model", {"model": {**LANGUAGE, "feed_forward": 96, "vocabulary": 1024}}),
    "arcee": ("language-model", {"model": {**LANGUAGE, "size": "shakespeare", "tied": False}}),
    "gpt2": ("language-model", {"model": {**GPT2, "positions": "learned", "activation": "gelu_tanh"}}),
    "alibi": ("language-model", {"model": {**GPT2, "positions": "alibi", "activation": "relu"}}),
    "esm classifier": ("classify-transformer", {"model": ENCODER}),
    "bert classifier": ("classify-transformer", {"model": {**BERT, "pooler": True, "pooling": "summary"}}),
    "esm tagger": ("tags", {"model": {**ENCODER, "positions": "rotary"}}),
    "bert tagger": ("tags", {"model": {**BERT, "token_types": 2}}),
    "bert reader": ("answer-transformer", {"model": {**BERT, "positions": "learned"}}),
    "esm encoder": ("encode-transformer", {"model": ENCODER}),
    "vit": ("digits-vit", {"model": {"width": 32, "layers": 2, "feed_forward": 48}}),
    "pegasus": ("translate-transformer", {"model": TRANSLATOR}),
    "pegasus, one table": ("translate-transformer", {"model": {**TRANSLATOR, "tied": "all"}, "data": JOINT}),
    "marian": ("translate-transformer", {"model": {**TRANSLATOR, "norm_first": False, "output_bias": True}}),
    "marian, one table": (
        "translate-transformer",
        {"model": {**TRANSLATOR, "norm_first": False, "tied": "all"}, "data": JOINT},
    ),
    "recurrent": ("translate-recurrent", {"model": {"width": 32, "embedding": 24}}),
    "recurrent classifier": ("languages", {"model": {"width": 32, "embedding": 24}}),
    "recurrent reader": ("answer-recurrent", {"model": {"width": 16, "embedding": 12}}),
    "forecaster": ("lag", {}),
    "recurrent forecaster": ("stocks-forecast", {"model": {"width": 16}}),
    "two towers": ("shapes-match", {"model": {"width": 16}}),
    "drawer": ("shapes-draw", {"model": {"width": 32, "layers": 1, "heads": 2}}),
    "asked": ("shapes-ask", {}),
    "captioner": (
        "shapes-caption", {"model": {"width": 24, "embedding": 16}, "decoding": {"max_length": 6, "beam": 3}},
    ),
    "recognizer": ("tones", {"model": {"width": 24, "embedding": 16}}),
    "classified sound": ("tones-classify", {}),
    "two texts": ("texts-classify", {"model": {"width": 16, "layers": 1, "heads": 2, "feed_forward": 24}}),
    "classified series": ("series-classify", {"model": {"width": 16}}),
}  # fmt: skip


def untrained(name: str, folder: Path) -> Run:
    shutil.copytree(_untrained(name), folder)
    return regard.load(folder)


def adapted(name: str, folder: Path) -> Run:
    """A run as training with adapters leaves it, beside the one that it started from."""
    base = untrained(name, folder / "base")
    shutil.copytree(base.folder, folder / "run")
    how = LoraSettings(rank=2, alpha=3.0)
    torch.manual_seed(5)
    adapt(base.model, how.rank, how.alpha, how.targets)
    for parameter in base.model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.3)
    save_adapters(base.model.state_dict(), folder / "run", str(folder / "base"))
    for module in list(base.model.modules()):
        if parametrize.is_parametrized(module):
            parametrize.remove_parametrizations(module, "weight")  # merged
    save_model(base.model, str(folder / "run" / "model.safetensors"))
    tree = config.load_yaml(folder / "run" / "config.yaml")
    tree |= {"start": {"run": str(folder / "base")}, "training": {**tree.get("training", {}), "lora": how.model_dump()}}
    (folder / "run" / "config.yaml").write_text(yaml.safe_dump(tree))
    return regard.load(folder / "run")


@contextmanager
def without_shape_checks() -> Iterator[None]:
    """Those of the tests ask for numbers, and a graph that is being written has sizes that are none."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)


@cache
def _untrained(name: str) -> Path:
    folder = Path(_FOLDER.name) / name
    recipe, sections = RUNS[name]
    if recipe.startswith("translate"):
        sections = {**sections, "decoding": {"max_length": 6, "beam": 3}}
    if name == "recognizer":
        sections = {**sections, "decoding": {"language_model": str(_language_model())}}
    begin(recipe, sections, folder)
    return folder


def _language_model() -> Path:
    """Of the keys that are heard."""
    folder, texts = Path(_FOLDER.name) / "language model", Path(_FOLDER.name) / "keys.txt"
    texts.write_text("0123456789*#\n" * 9)
    data = {"train": str(texts), "documents": "line", "valid_share": 0.3}
    begin("shakespeare", {"data": data, "model": {"layers": 1, "width": 16, "heads": 2, "context": 16}}, folder)
    return folder


def begin(recipe: str, sections: dict[str, Any], folder: Path) -> None:
    """A run's folder before its first step."""
    with small_corpora():
        job = make_job(config.read(recipe, sections))
        job.prepare(folder / "cache")
        model = job.build()
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():  # fresh ones have biases of 0 and norms of 1, which would hide mistakes
        spread = 0.2 if parameter.ndim < 3 else 0.02  # convolutions sum many of them
        parameter.data += spread * torch.randn(parameter.shape, generator=generator)
    train._keep(job, folder)
    save_model(model, str(folder / "model.safetensors"))
