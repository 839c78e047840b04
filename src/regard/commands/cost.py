"""`regard cost RECIPE`: what a recipe or a published model costs, before it is built."""

from pathlib import Path

import torch
from torch import nn

from regard import config
from regard.cost.estimate import Cost
from regard.cost.hardware import find as find_hardware
from regard.cost.passes import model_cost
from regard.cost.published import PUBLISHED, published_cost
from regard.data.special_ids import OURS
from regard.errors import CallError, nearest
from regard.inputs.text.body_settings import PretrainedTextSettings, RecurrentTextSettings, TransformerTextSettings
from regard.models.classifier import Classifier
from regard.outputs.labels.settings import ClassifyRecipe, TextSettings
from regard.outputs.text.continuation import build_language_model
from regard.outputs.text.generate_settings import GenerateRecipe
from regard.outputs.text.settings import TranslateRecipe
from regard.parts import build_pooling, build_seq2seq, text_encoder
from regard.pretrained import encoder

BYTES = 260  # tokens of a vocabulary of bytes, the special ones included
LENGTH = 32  # tokens of a typical sentence; a batch of the recipe holds as many of them as its budget allows


def cost(
    recipe: str,
    overrides: tuple[str, ...] = (),
    hardware: str = "here",
    *,
    batch: int | None = None,
    length: int | None = None,
    dtype: str | None = None,
    utilization: float | None = None,
) -> Cost:
    """A published name, a packaged recipe or a YAML file. Nothing is allocated: the model lives on the meta device."""
    if recipe not in PUBLISHED and recipe not in config.packaged() and not Path(recipe).is_file():
        raise CallError(
            f"{recipe!r} is no recipe, file or published model{nearest(recipe, [*PUBLISHED, *config.packaged()])}"
        )
    if recipe in PUBLISHED and overrides:
        raise CallError(f"{recipe} is a published model, which has no settings to override: {' '.join(overrides)}")
    settings = None if recipe in PUBLISHED else config.read(recipe, overrides)
    machine = find_hardware(hardware)
    if settings is None:
        return published_cost(
            recipe, hardware=machine, batch=batch, length=length, dtype=dtype, utilization=utilization
        )
    if isinstance(settings, GenerateRecipe):
        with torch.device("meta"):
            language_model = build_language_model(
                settings.model, BYTES if settings.data.tokenizer.kind == "byte" else settings.data.tokenizer.size
            )
        length = length or settings.model.context
        return model_cost(
            language_model,
            batch=batch or max(1, settings.training.max_tokens // length),
            length=length,
            name=recipe,
            hardware=machine,
            dtype=dtype,
            utilization=utilization,
            notes=("the vocabulary is taken as full (data.tokenizer.size); small data fills less",),
        )
    if isinstance(settings, ClassifyRecipe) and isinstance(settings.data, TextSettings):
        length = length or min(LENGTH, settings.data.max_length)
        return model_cost(
            _text_classifier(settings, settings.data.tokenizer.size),
            batch=batch or max(1, settings.training.max_tokens // length),
            length=length,
            name=recipe,
            hardware=machine,
            dtype=dtype,
            utilization=utilization,
            notes=("the vocabulary is taken as full (data.tokenizer.size), and two classes are counted",),
        )
    if not isinstance(settings, TranslateRecipe):
        raise CallError(
            f"{recipe}: cost counts translators, classifiers of text, language models and published ones; "
            f"`regard check {recipe}` says how large the model of the job {settings.job!r} is"
        )
    tokens = settings.data.tokenizer
    with torch.device("meta"):
        model = build_seq2seq(
            settings.model, tokens.size, tokens.size if tokens.joint else tokens.target_size or tokens.size
        )
    length = length or min(LENGTH, settings.data.max_length)
    return model_cost(
        model,
        batch=batch or max(1, settings.training.max_tokens // (2 * length)),
        length=length,
        name=recipe,
        hardware=machine,
        dtype=dtype,
        utilization=utilization,
        notes=("vocabularies are taken as full (data.tokenizer.size); small data fills less",),
    )


def _text_classifier(settings: ClassifyRecipe, vocabulary: int) -> nn.Module:
    """With two classes; a pretrained encoder tells its own sizes and vocabulary."""
    model, sizes, pad = settings.model, settings.model, OURS.pad
    assert isinstance(model, RecurrentTextSettings | TransformerTextSettings | PretrainedTextSettings)
    if isinstance(model, PretrainedTextSettings):
        found = encoder(model.path)
        sizes, vocabulary, pad = found.settings, found.tokenizer.size, found.tokenizer.specials.pad
    own = isinstance(model, RecurrentTextSettings) and model.self_attention
    with torch.device("meta"):
        body = text_encoder(sizes, vocabulary, pad=pad or 0)
        width = int(body.memory_width)  # pyright: ignore[reportArgumentType]
        return Classifier(body, build_pooling(model.pooling, model.score, width, self_attention=own), width, 2)
