"""Automatic settings of text generation: tokens, sizes, lengths, the rate and the score."""

from typing import Any

from regard.files.chats import ENDS, REPLY
from regard.inputs.image import defaults as pictures
from regard.inputs.sound import defaults as sounds
from regard.inputs.text import defaults as texts
from regard.settings.decisions import Decision, Plan, Sample, Size, percentile, watch

LONG = 30.0  # seconds; training keeps at least all recordings up to this length


def _writing(sample: Sample) -> tuple[list[Decision], list[int]]:
    """Decide the tokens of targets, their maximum length, and the validation score."""
    cut = texts.tokenizer(sample.targets, sample.count)
    lengths = texts.token_lengths(sample.targets, cut)
    return [*cut, texts.longest(lengths), texts.writes_at_most(lengths)], lengths


def translate(kinds: tuple[str, str], sample: Sample) -> Plan:
    joint = texts.script(sample.inputs) == texts.script(sample.targets)
    both = [*sample.inputs, *sample.targets]
    cut = texts.tokenizer(both, 2 * sample.count if joint else sample.count)
    source, target = (texts.token_lengths(side, cut) for side in (sample.inputs, sample.targets))
    shared = (
        "both sides are of one script, so that names and numbers are the same"
        if joint
        else "two scripts share few tokens"
    )
    decisions = [
        *cut,
        Decision("data.tokenizer.joint", joint, shared),
        texts.longest([*source, *target]),
        texts.held_out(sample.count, "pairs", least=500),
        texts.writes_at_most(target),
        Decision("decoding.beam", 4, "beams beyond this rarely find better sentences"),
        watch("bleu", "the aim is good translations, not a small loss"),
    ]
    dropout = 0.1 if sample.count > 200_000 else 0.2
    common: dict[str, Any] = {"kind": "transformer", "tied": "all" if joint else "output", "dropout": dropout}
    small, middle, large = (
        {**common, "width": width, "heads": heads, "feed_forward": 4 * width, "encoder_layers": n, "decoder_layers": n}
        for width, heads, n in ((128, 4, 2), (256, 4, 3), (512, 8, 6))
    )
    sizes = [Size("small", small, 6), Size("middle", middle, 10, 10_000), Size("large", large, 12, 200_000)]
    return Plan(decisions, sizes)


def caption(kinds: tuple[str, str], sample: Sample) -> Plan:
    form, sides, photos = pictures.form(sample.inputs)
    writing, _ = _writing(sample)
    decisions = [
        *form, *writing, texts.held_out(sample.count, "pictures"),
        Decision("decoding.beam", 4, "beams beyond this rarely find better sentences"),
        watch("bleu4", "the aim is good captions, not a small loss"),
    ]  # fmt: skip
    common = {"kind": "recurrent", "context": "attention", "score": "additive", "dropout": 0.3 if photos else 0.1}
    widths = {"width": 256, "embedding": 192} if photos else {"width": 128, "embedding": 96}
    encoders = pictures.encoders(sides, photos, sample.count)
    return Plan(decisions, [
        Size(size.name, {**common, **widths, "encoder": size.settings}, size.passes, size.least) for size in encoders
    ])  # fmt: skip


def ask(kinds: tuple[str, str], sample: Sample) -> Plan:
    """Return the plan of `caption` with a question for each picture; `inputs` are (facts of a picture, question)."""
    facts, questions = ([one[side] for one in sample.inputs] for side in (0, 1))
    made = caption(kinds, Sample(sample.count, facts, [*sample.targets, *questions], sample.seconds))
    scored = [decision for decision in made.decisions if decision.key != "training.metric"]
    right = Decision("training.metric", "exact_match", "an answer is right or wrong")
    return Plan([*scored, right], made.sizes)


def transcribe(kinds: tuple[str, str], sample: Sample) -> Plan:
    usual = sounds.usual_seconds(sample.inputs)
    one_word = percentile([len(text.split()) for text in sample.targets], 90) <= 1
    few = len({*sample.targets}) <= max(2, len(sample.targets) // 5)
    if one_word and few:
        cut = [Decision("data.tokenizer.kind", "word", f"only {len({*sample.targets})} different words occur")]
    else:
        cut = [Decision("data.tokenizer.kind", "character", "speech is close to letters; no word is unknown")]
    lengths = texts.token_lengths(sample.targets, cut)
    hearing = sounds.hearing(sample.inputs, most=max(LONG, 1.5 * usual), done="are left out of training")
    seconds = next(decision.value for decision in hearing if decision.key == "data.max_seconds")
    # frames of 10 ms; each layer halves them, and some more frames than letters must remain
    frames = usual * 100 / max(1, percentile(lengths, 50))
    pyramid = 3 if frames > 40 else 2 if frames > 16 else 1
    decisions = [
        *cut, *hearing, *sounds.augmentation(sample.count),
        texts.longest(lengths), texts.writes_at_most(lengths), texts.held_out(sample.count, "recordings"),
        Decision("decoding.window", round(min(30.0, 2 * seconds), 1), "longer recordings are cut where it is quiet"),
        Decision("decoding.beam", 4, "beams beyond this rarely find better texts"),
        watch("loss" if few else "cer", "the score of validation"),
    ]  # fmt: skip
    batch = sounds.frames(seconds) + int(max(lengths, default=0))  # one recording fits
    common: dict[str, Any] = {
        "kind": "recurrent", "cell": "lstm", "embedding": 64, "pyramid": pyramid, "score": "additive",
        "ctc": 0.0 if one_word and few else 0.5, "dropout": 0.2 if sample.count < 20_000 else 0.1,
    }  # fmt: skip
    return Plan(decisions, [
        Size("small", {**common, "width": 96}, 10),
        Size("middle", {**common, "width": 160}, 15, 2000),
        Size("large", {**common, "width": 320}, 15, 20_000),
    ], batch, max(4096, batch))  # fmt: skip


def generate(kinds: tuple[str, str], sample: Sample) -> Plan:
    """Plan a language model; `count` is the number of bytes of plain text."""
    alphabet = len({letter for text in sample.inputs for letter in text})
    if sample.count < 3_000_000 and alphabet < 250:
        why = f"{sample.count / 1e6:.2g} MB are too few to learn words; {alphabet} different letters were found"
        cut = [
            Decision("data.tokenizer.kind", "character", why),
            Decision("data.tokenizer.size", 1000, "more than there are"),
        ]
        context = 128
    else:
        size = 4000 if sample.count < 30_000_000 else 8000
        why = f"pieces of bytes, which can encode every text; {sample.count / 1e6:.3g} MB"
        cut = [
            Decision("data.tokenizer.kind", "bpe", why),
            Decision("data.tokenizer.size", size, "by the size of the text"),
        ]
        context = 256
    decisions = [
        *cut,
        Decision("training.optimizer", "muon", "learns language models of this size fastest"),
        Decision("training.betas", [0.9, 0.99], "usual for language models"),
        Decision("training.weight_decay", 0.1, "usual for language models"),
        Decision("training.schedule", "linear", "ends at zero"),
        Decision("training.learning_rate", 0.01, "usual for muon"),
    ]
    if sum(f"\n{REPLY}" in f"\n{text}" for text in sample.inputs) > len(sample.inputs) / 2:
        decisions.append(
            Decision("decoding.stop", ENDS, "a chat: the model's turn ends where the other speaker starts")
        )
    common = {"activation": "swiglu", "norm": "rms", "positions": "rotary", "context": context}
    return Plan(decisions, [
        Size("small", {**common, "layers": 4, "width": 128, "heads": 4}, 1),
        Size("middle", {**common, "layers": 6, "width": 256, "heads": 8}, 3, 2_000_000),
        Size("large", {**common, "layers": 8, "width": 512, "heads": 8}, 4, 50_000_000),
    ], 8 * context, sample=2_000_000)  # fmt: skip
