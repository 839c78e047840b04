"""Automatic settings of a classifier, by the kind of input."""

from collections import Counter
from dataclasses import replace
from typing import Any

from regard.inputs.image import defaults as pictures
from regard.inputs.sound import defaults as sounds
from regard.inputs.text import defaults as texts
from regard.settings.decisions import Decision, Plan, Sample, Size, watch

TIME_TO_TUNE = 300  # seconds; with less time, no pretrained encoder is tried
TUNING = {"max_tokens": 800, "max_epochs": 5, "learning_rate": 2e-4, "schedule": "linear"}
LABEL = 2  # tokens of a label and the end token
RARE = 0.2  # share of the even size; smaller classes would be ignored


def decide(kinds: tuple[str, str], sample: Sample) -> Plan:
    made = {"text": _text, "texts": _two_texts, "image": _image, "sound": _sound, "series": _series}[kinds[0]](sample)
    return replace(made, decisions=[*made.decisions, *_scores(sample)])


def _scores(sample: Sample) -> list[Decision]:
    if sample.several:
        return [texts.held_out(sample.count, "examples"), watch("micro_f1", "a row may have several labels, or none")]
    counts, watched = Counter(sample.targets), watch("accuracy", "the aim is correct labels")
    rarest = min(counts.values(), default=1) * len(counts) / max(1, len(sample.targets))
    if len(counts) > 1 and rarest < RARE:
        name = min(counts, key=counts.__getitem__)
        watched = watch("macro_f1", f"classes are uneven ({name} is rare): all count the same")
    return [texts.held_out(sample.count, "examples"), watched]


def _text(sample: Sample) -> Plan:
    cut = texts.tokenizer(sample.inputs, sample.count)
    lengths = texts.token_lengths(sample.inputs, cut)
    dropout = 0.4 if sample.count < 20_000 else 0.2
    common: dict[str, Any] = {
        "kind": "recurrent", "cell": "lstm", "pooling": "attention", "score": "additive", "dropout": dropout,
        "head_dropout": dropout, "word_dropout": 0.1 if sample.count < 20_000 else 0.0,
    }  # fmt: skip
    sizes = [
        Size("small", {**common, "width": 128, "embedding": 96}, 6),
        Size("middle", {**common, "width": 192, "embedding": 128}, 8, 1000),
        Size("large", {**common, "width": 384, "embedding": 256}, 12, 20_000),
    ]
    if sample.seconds >= TIME_TO_TUNE and texts.is_english(sample.inputs) and (path := texts.pretrained()):
        tuned = {"kind": "pretrained", "path": path, "pooling": "mean", "layer_decay": 0.85}
        sizes.append(Size("MiniLM", tuned, 2, training=TUNING))
    return Plan([*cut, texts.longest(lengths)], sizes)


def _two_texts(sample: Sample) -> Plan:
    """Plan a Transformer, whose words can attend to those of the other text."""
    cut = texts.tokenizer([text for two in sample.inputs for text in two], 2 * sample.count)
    firsts, seconds = (texts.token_lengths([two[side] for two in sample.inputs], cut) for side in (0, 1))
    common: dict[str, Any] = {
        "kind": "transformer", "positions": "learned", "embedding_norm": True, "pooling": "cls",
        "dropout": 0.2 if sample.count < 20_000 else 0.1, "head_dropout": 0.1,
    }  # fmt: skip
    return Plan([*cut, texts.longest([one + other for one, other in zip(firsts, seconds, strict=True)])], [
        Size("small", {**common, "width": 64, "layers": 2, "heads": 4, "feed_forward": 128}, 12),
        Size("middle", {**common, "width": 128, "layers": 3, "heads": 4, "feed_forward": 256}, 15, 5000),
        Size("large", {**common, "width": 256, "layers": 4, "heads": 8, "feed_forward": 512}, 20, 50_000),
    ])  # fmt: skip


def _image(sample: Sample) -> Plan:
    form, sides, photos = pictures.form(sample.inputs)
    return Plan(
        [*form, *pictures.augmentation(sides, photos, sample.count)], pictures.encoders(sides, photos, sample.count)
    )


def _sound(sample: Sample) -> Plan:
    usual = sounds.usual_seconds(sample.inputs)
    common: dict[str, Any] = {
        "kind": "sound_recurrent", "cell": "gru", "pyramid": 2 if usual > 0.5 else 1,
        "dropout": 0.3 if sample.count < 5000 else 0.2,
    }  # fmt: skip
    heard = sounds.hearing(sample.inputs, most=sounds.AT_ONCE)
    seconds = next(decision.value for decision in heard if decision.key == "data.max_seconds")
    return Plan([*heard, *sounds.augmentation(sample.count)], [
        Size("small", {**common, "width": 64}, 10),
        Size("middle", {**common, "width": 128}, 15, 1000),
        Size("large", {**common, "width": 256}, 20, 10_000),
    ], sounds.frames(seconds) + LABEL)  # fmt: skip


def _series(sample: Sample) -> Plan:
    common: dict[str, Any] = {"kind": "series_recurrent", "dropout": 0.1 if sample.count < 2000 else 0.0}
    batch = max(facts.longest for facts in sample.inputs) + LABEL  # one series fits
    return Plan([], [
        Size("small", {**common, "width": 32}, 10),
        Size("middle", {**common, "width": 64}, 15, 1000),
        Size("large", {**common, "width": 128, "encoder_layers": 2}, 20, 10_000),
    ], batch, max(4096, batch))  # fmt: skip
