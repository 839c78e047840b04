"""Settings of decoding, and the recipe of text to text."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from regard.data.settings import TokenizerSettings
from regard.files.lines import ENDS, REPLY
from regard.inputs.image import settings as pictures
from regard.inputs.prompt.files import TextDataSettings
from regard.inputs.sound import settings as sounds
from regard.inputs.sound.settings import ConvolutionSettings, PyramidSettings, SoundDataSettings
from regard.inputs.text import settings as texts
from regard.inputs.text.settings import PairDataSettings
from regard.settings.base import Settings
from regard.settings.language_model import LanguageModelSettings
from regard.settings.model import COLDEST, RecurrentSettings, SamplingSettings, Temperature, TransformerSettings
from regard.settings.recipe import Decision, Decisions, Recipe, Sample, Size, percentile, watch


class DecodingSettings(SamplingSettings):
    """Beam search by default; beam=1 is greedy; sample=true samples."""

    beam: int = Field(5, ge=1, le=1000, description="hypotheses kept at each step; 1 is greedy")
    length_penalty: float = Field(
        1.0, ge=0, description="scores are divided by length ** this; 0 prefers short outputs"
    )
    coverage_penalty: float = Field(0.0, ge=0, description="weight of the penalty for source words not attended to")
    min_length: int = Field(0, ge=0, description="minimum tokens of an output")
    max_length: int = Field(200, ge=1, description="maximum tokens of an output")
    sample: bool = Field(False, description="sample from the model's distribution instead of searching")
    temperature: float = Field(1.0, ge=COLDEST, description="below 1 sharpens the distribution of samples")
    batch_tokens: int = Field(4096, ge=1, description="source tokens decoded together")
    unknown: bool = Field(False, description="allow <unk> in outputs")
    replace_unknown: bool = Field(False, description="replace <unk> by the most attended source word")

    @property
    def random(self) -> bool:
        """Whether outputs are sampled instead of searched."""
        return self.sample

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.n_best > self.beam and not self.sample:
            yield "n_best", f"is more than beam={self.beam}"
        if self.min_length > self.max_length:
            yield "min_length", f"is more than max_length={self.max_length}"


class WritingRecipe(Recipe):
    """Checks shared by all recipes whose decoder generates text over a memory."""

    reads_words: ClassVar[bool] = False  # whether the input has words that can replace unknown ones

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.model.tied == "all" and not (self.reads_words and self.data.tokenizer.joint):
            why = "is all, which also shares the word vectors of the input: that needs one vocabulary for both texts"
            yield "model.tied", f"{why} and data.tokenizer.joint=true; output shares the decoder's"
        if self.decoding.replace_unknown and not self.reads_words:
            yield "decoding.replace_unknown", "has no meaning here: there are no source words"


class TranslateRecipe(WritingRecipe):
    """Text to text: translation, spelling correction, any source line with a target line."""

    reads_words: ClassVar[bool] = True

    job: Literal["translate"] = Field("translate", description="the job: text to text")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: PairDataSettings = Field(description="the user's files and how they are read")
    model: Annotated[RecurrentSettings | TransformerSettings, Field(discriminator="kind")] = Field(
        description="the model and its sizes"
    )
    decoding: DecodingSettings = Field(DecodingSettings.model_validate({}), description="how outputs are decoded")


# The recipe of sound to text.


class SpeechDataSettings(SoundDataSettings):
    """Recordings with their texts."""

    tokenizer: TokenizerSettings = Field(
        TokenizerSettings.model_validate({"kind": "character"}), description="how text is cut into tokens"
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        yield from self.tokenizer.problems_of_one_text()


class CtcSettings(Settings):
    ctc: float = Field(
        0.0, ge=0, lt=1, description="weight of the CTC loss relative to the decoder loss; 0 disables it"
    )


class ListenerSettings(PyramidSettings, CtcSettings):
    """Listen, Attend and Spell: a pyramid of bidirectional LSTMs, and a recurrent decoder with attention."""


class SpeechTransformerSettings(ConvolutionSettings, CtcSettings):
    """Convolutions that join four frames into one, then a Transformer encoder and decoder."""


class SpeechDecodingSettings(DecodingSettings):
    """Beam search, optionally with CTC and a language model."""

    max_length: int = Field(400, ge=1, description="maximum tokens of an output (of one window of a long recording)")
    batch_tokens: int = Field(8000, ge=1, description="frames of sound decoded together")
    ctc: float = Field(
        0.3, ge=0, lt=1, description="weight of CTC in the search, for models with CTC; 0 uses the decoder alone"
    )
    language_model: str | None = Field(None, description="folder of a `generate` run for shallow fusion")
    language_model_weight: float = Field(0.3, ge=0, description="weight of its log-probability")
    window: float = Field(
        30.0, gt=0, description="maximum seconds of a window; longer recordings are cut at quiet points"
    )


class TranscribeRecipe(WritingRecipe):
    """Sound to text: speech recognition and other transcription."""

    job: Literal["transcribe"] = Field("transcribe", description="the job: sound to text")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: SpeechDataSettings = Field(description="the user's recordings and how they are read")
    model: Annotated[ListenerSettings | SpeechTransformerSettings, Field(discriminator="kind")] = Field(
        description="the model and its sizes"
    )
    decoding: SpeechDecodingSettings = Field(
        SpeechDecodingSettings.model_validate({}), description="how outputs are decoded"
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from super().problems()
        longest, window = self.data.max_seconds if self.data.join is None else None, self.decoding.window
        if longest is not None and window > 4 * longest:
            why = f"training recordings have at most data.max_seconds={longest:g}: set {4 * longest:g} or less"
            yield "decoding.window", f"is {window:g} seconds, but {why}"


# Automatic settings of text generation: tokens, sizes, lengths, the rate and the score.

LONG = 30.0  # seconds; training keeps at least all recordings up to this length


def _writing(sample: Sample) -> tuple[list[Decision], list[int]]:
    """Decide the tokens of targets, their maximum length, and the validation score."""
    cut = texts.tokenizer(sample.targets, sample.count)
    lengths = texts.token_lengths(sample.targets, cut)
    return [*cut, texts.longest(lengths), texts.writes_at_most(lengths)], lengths


def translate(kinds: tuple[str, str], sample: Sample) -> Decisions:
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
    return Decisions(decisions, sizes)


def caption(kinds: tuple[str, str], sample: Sample) -> Decisions:
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
    return Decisions(decisions, [
        Size(size.name, {**common, **widths, "encoder": size.settings}, size.passes, size.least) for size in encoders
    ])  # fmt: skip


def ask(kinds: tuple[str, str], sample: Sample) -> Decisions:
    """Return the plan of `caption` with a question for each picture; `inputs` are (facts of a picture, question)."""
    facts, questions = ([one[side] for one in sample.inputs] for side in (0, 1))
    made = caption(kinds, Sample(sample.count, facts, [*sample.targets, *questions], sample.seconds))
    scored = [decision for decision in made.decisions if decision.key != "training.metric"]
    right = Decision("training.metric", "exact_match", "an answer is right or wrong")
    return Decisions([*scored, right], made.sizes)


def transcribe(kinds: tuple[str, str], sample: Sample) -> Decisions:
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
    return Decisions(decisions, [
        Size("small", {**common, "width": 96}, 10),
        Size("middle", {**common, "width": 160}, 15, 2000),
        Size("large", {**common, "width": 320}, 15, 20_000),
    ], batch, max(4096, batch))  # fmt: skip


def generate(kinds: tuple[str, str], sample: Sample) -> Decisions:
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
    return Decisions(decisions, [
        Size("small", {**common, "layers": 4, "width": 128, "heads": 4}, 1),
        Size("middle", {**common, "layers": 6, "width": 256, "heads": 8}, 3, 2_000_000),
        Size("large", {**common, "layers": 8, "width": 512, "heads": 8}, 4, 50_000_000),
    ], 8 * context, sample=2_000_000)  # fmt: skip


# The recipe of language models: plain text in, more text out.


class GenerationSettings(SamplingSettings):
    """How a prompt is continued: token by token, sampled from the model's distribution."""

    temperature: Temperature = Field(0.8, ge=0, description="below 1 sharpens the distribution; 0 is greedy")
    max_length: int = Field(200, ge=1, description="maximum tokens to generate")
    repetition_penalty: float = Field(1.0, ge=1, description="above 1 makes repeated tokens less probable")
    stop: list[str] = Field([], description="texts that end the output; they are not part of it")
    begin: bool | None = Field(
        None, description="put the begin token before a prompt; null is: if documents are lines or paragraphs"
    )
    stride: int = Field(
        0, ge=0, description="evaluation: tokens by which its window moves; 0 is half of the context, 1 is most exact"
    )


class GenerateRecipe(Recipe):
    """Language models: plain text in, more text out."""

    job: Literal["generate"] = Field("generate", description="the job: continue text")  # pyright: ignore[reportIncompatibleVariableOverride]
    data: TextDataSettings = Field(description="the user's files and how they are read")
    model: LanguageModelSettings = Field(
        LanguageModelSettings.model_validate({}), description="the model and its sizes"
    )
    decoding: GenerationSettings = Field(GenerationSettings.model_validate({}), description="how prompts are continued")

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.training.max_tokens < self.model.context:
            yield "training.max_tokens", f"is less than one window of model.context={self.model.context}"
        if self.decoding.stride > self.model.context:
            yield "decoding.stride", f"is more than model.context={self.model.context}: tokens would be left out"
