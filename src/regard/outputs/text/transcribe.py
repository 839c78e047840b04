"""Sound to text: speech recognition, dialled numbers, anything that can be heard and written down.

recordings → samples on disk → features → batches → encoder → Memory → decoder → loss        (training)
file → windows → features → encoder → Memory → search → token ids → text and times           (prediction)
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import torch
from torch import nn

from regard.data.check_report import CheckReport
from regard.data.tables import Role
from regard.data.tokenizer import TOKENIZER, Tokenizer
from regard.decoding.ctc_joint import LanguageModelVoice
from regard.errors import CallError
from regard.inputs.sound.batches import Joined, SpeechBatches, Utterances, plain_batches
from regard.inputs.sound.check import check_speech
from regard.inputs.sound.features import log_mel
from regard.inputs.sound.files import speech_split
from regard.inputs.sound.prepare import PreparedSpeech, prepare_speech, stored
from regard.inputs.sound.recording import Sound, SoundError, read_sound, sound_files
from regard.inputs.sound.store import SpeechStore, Utterance
from regard.look import AttentionRecord, heat_map
from regard.metrics.speech import error_rates
from regard.models.ctc import SpeechToText
from regard.old_job import PLAIN, Output, Picture, Prediction, Scores, Wish
from regard.outputs.text import looking, transcribe_looking
from regard.outputs.text.build_speech import build_speech
from regard.outputs.text.listening import Clock, Features, listen, log_probabilities
from regard.outputs.text.transcribe_language import voice
from regard.outputs.text.transcribe_scores import measure
from regard.outputs.text.transcribe_settings import TranscribeRecipe
from regard.outputs.text.transcribing import Input, Transcriber, features_of
from regard.settings.recipe import Recipe

QUICK = 100  # validation recordings that are transcribed, greedily, while training goes on
PICTURES, WIDEST = 4, 160  # alignments in the report, and the most columns one may have
MEAN = "Attention of the decoder over the sound, the mean of all its heads. Rows: written; columns: seconds."
SEEDS: dict[Role, int] = {"train": 0, "valid": 1, "test": 2}  # of sequences that are joined for measuring


class Transcribe:
    """The job, under one recipe. `prepare` (training) or `restore` (prediction) brings the tokenizer."""

    takes_prefix = True  # see Looks

    takes: Literal["audio"] = "audio"

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer | None = None) -> None:
        assert isinstance(recipe, TranscribeRecipe)
        self.recipe = recipe
        self._tokenizer = tokenizer
        self._prepared: PreparedSpeech | None = None
        self.clock = Clock(recipe.data.sound, recipe.model.reduction)

    def under(self, recipe: Recipe) -> "Transcribe":
        return Transcribe(recipe, self._tokenizer)

    # ------------------------------------------------------------------------------------------------------ training
    def prepare(self, cache: Path) -> None:
        self._prepared = prepare_speech(self.recipe.data, cache, tokenizer=self._tokenizer)
        self._tokenizer = self._prepared.tokenizer

    def check(self, cache: Path) -> CheckReport:
        """What is wrong with the recordings, and how much of them there is."""
        prepared = prepare_speech(self.recipe.data, cache, tokenizer=self._tokenizer, strict=False)
        with torch.device("meta"):
            model = build_speech(self.recipe.model, self.recipe.data.sound.bands, prepared.tokenizer.size)
        size = sum(weights.numel() for weights in model.parameters())
        report = check_speech(self.recipe.data, prepared, self.recipe.model.reduction)
        return replace(report, estimates={"parameters": f"{size:,}", **report.estimates})

    def build(self) -> SpeechToText:
        torch.manual_seed(self.recipe.training.seed)
        return build_speech(self.recipe.model, self.recipe.data.sound.bands, self.tokenizer.size)

    def batches(self) -> SpeechBatches:
        data, training = self.recipe.data, self.recipe.training
        return SpeechBatches(
            self.data.stores["train"], self.tokenizer, training.max_tokens,
            augment=data.augment, join=data.join, seed=training.seed,
        )  # fmt: skip

    def fingerprint(self) -> str:
        return self.data.stores["train"].digest()

    @torch.inference_mode()
    def validate(self, model: nn.Module) -> dict[str, float]:
        """Loss and accuracy a token of all validation data; error rates, greedily, of the first few."""
        utterances = self._utterances("valid", self.data.stores["valid"])
        device = next(model.parameters()).device
        total, count, correct = 0.0, 0, 0
        for batch in plain_batches(utterances, self.recipe.data.sound, self.recipe.training.max_tokens):
            found = model(batch.to(device))
            total, count, correct = total + float(found.total), count + found.count, correct + int(found.correct)
        some = [utterances[row] for row in range(min(QUICK, len(utterances)))]
        rates = error_rates(self._quickly(model, some), [one.text for one in some])
        return {
            "loss": total / max(1, count), "accuracy": correct / max(1, count),
            **{name: rates[name] for name in ("wer", "cer", "exact_match")},
        }  # fmt: skip

    def sample(self, model: nn.Module) -> str:
        """A validation recording, and what the model makes of it now."""
        one = self._utterances("valid", self.data.stores["valid"])[0]
        return (
            f"{len(one.samples) / self.recipe.data.sound.rate:.1f} s\n→ {self._quickly(model, [one])[0]}\n= {one.text}"
        )

    def watch(self, model: nn.Module, most: int) -> list[AttentionRecord]:
        """The first validation recordings with what is said in them; of a model that does not attend, nothing."""
        utterances = self._utterances("valid", self.data.stores["valid"])
        records = []
        for row in range(min(most, len(utterances))):
            one = utterances[row]
            with suppress(CallError):
                record = self.look(model, Sound(one.samples, self.recipe.data.sound.rate), Wish(one.text))
                records.append(replace(record, input=f"validation recording {row + 1}"))
        return records

    def pictures(self, model: nn.Module) -> list[Picture]:
        """Where the decoder looked while it wrote, for a few validation recordings."""
        utterances = self._utterances("valid", self.data.stores["valid"])
        some = [utterances[row] for row in range(min(PICTURES, len(utterances)))]
        sounds = [Sound(one.samples, self.recipe.data.sound.rate) for one in some]
        found = []
        for one, said in zip(some, self.predict(model, sounds, attention=True), strict=True):
            if said.alignment is not None and len(said.alignment.columns) <= WIDEST:
                svg = heat_map(said.alignment.mean, said.alignment.rows, said.alignment.columns, said.text)
                found.append(Picture(f"{said.text} (in truth: {one.text})", svg, MEAN))
        return found

    # ---------------------------------------------------------------------------------------------------- the folder
    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)

    def restore(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.of_run(folder)

    # ---------------------------------------------------------------------------------------------------- prediction
    def inputs(self, words: Sequence[str]) -> list[Path]:
        """Recordings, and all recordings in folders."""
        found: list[Path] = []
        for word in words:
            path = Path(word).expanduser()
            if not path.exists():
                raise CallError(f"{word}: there is no such recording")
            inside = list(sound_files(path)) if path.is_dir() else [path]
            if not inside:
                raise CallError(f"{word}: there is no recording in this folder")
            found += inside
        return found

    def predict(
        self, model: nn.Module, inputs: Sequence[Input], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        """Texts of recordings; with `attention` also when each token and word was heard."""
        assert isinstance(model, SpeechToText)
        transcriber = Transcriber(
            model, self.tokenizer, self.recipe.data.sound, self.recipe.decoding, self.clock,
            prefix=prefix, attention=attention, language=self._language(model),
        )  # fmt: skip
        return list(transcriber.transcripts(inputs))

    def look(self, model: nn.Module, text: Input, wish: Wish = PLAIN) -> AttentionRecord:
        """When the model listened to what, as it wrote its own text for a recording or the given one."""
        assert isinstance(model, SpeechToText)
        if wish.gold is not None:
            raise CallError("gold links are between words; of sound, `regard evaluate` holds times against gold ones")
        features, how = self._features(text), self.recipe.decoding
        seconds = len(features) * self.recipe.data.sound.hop
        if seconds > how.window:
            raise CallError(
                f"{text} has {seconds:.0f} seconds: up to decoding.window={how.window:g} can be looked at at once; cut "
                "out the part of interest"
            )
        show = partial(
            transcribe_looking.look, model, self.tokenizer, features,
            sound=self.recipe.data.sound, clock=self.clock, method=wish.method, name=wish.name, input=str(text),
        )  # fmt: skip
        if wish.output is not None:
            return show(tokens=self.tokenizer.encode(wish.output))
        with looking.evaluating(model):
            begin = self.tokenizer.encode(wish.prefix)
            best, *others = listen(model, [features], how, prefix=begin, language=self._language(model))[0]
        record = replace(show(tokens=best.tokens), score=best.score)
        return replace(record, beams=tuple(replace(show(tokens=o.tokens), score=o.score) for o in others))

    def score(self, model: nn.Module, inputs: Sequence[Input], outputs: Sequence[str]) -> list[Prediction]:
        """log p(text | recording) by the decoder, the end symbol included."""
        assert isinstance(model, SpeechToText)
        targets = [self.tokenizer.encode(text) for text in outputs]
        group = self.recipe.decoding.batch_tokens
        totals = log_probabilities(model, [self._features(one) for one in inputs], targets, group)
        return [
            Prediction(str(one), [Output(said, total, total)])
            for one, said, total in zip(inputs, outputs, totals, strict=True)
        ]

    # ---------------------------------------------------------------------------------------------------- evaluation
    def evaluate(self, model: nn.Module, *, alignments: bool = False) -> Scores:
        """Error rates on the test data, speed and, where gold times are known, whether it looked there."""
        assert isinstance(model, SpeechToText)
        data = self.recipe.data
        split = speech_split(data, "test")
        if split is None:
            raise CallError("the recipe has no test data: give data.test=LIST, a folder or a tar")
        with TemporaryDirectory(prefix="regard-test-") as cache:
            store = stored(Path(data.cache or cache), data, "test", split, self.tokenizer, strict=False)
            utterances = self._utterances("test", store)
            language = self._language(model)

            def say(some: Sequence[Utterance]) -> list[str]:
                found = listen(model, [self._features(one) for one in some], self.recipe.decoding, language=language)
                return [self.tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]

            scores = measure(
                model, utterances, say, self._features, self.tokenizer, self.clock, data.sound.rate,
                self.recipe.decoding.batch_tokens, by_head=alignments,
            )  # fmt: skip
            if bad := store.counted.counts.read.bad:
                scores.notes["skipped"] = f"{bad} recordings of {split} that cannot be used: regard check names them"
            return scores

    def _utterances(self, role: Role, store: SpeechStore) -> Utterances:
        """What a split is measured on: its recordings, or always the same sequences of them."""
        join = self.recipe.data.join
        if join is None:
            return store
        return Joined(store, self.tokenizer, join, {"valid": join.valid, "test": join.test}[role], SEEDS[role])

    def _quickly(self, model: nn.Module, some: Sequence[Utterance]) -> list[str]:
        """Greedily and by the decoder alone."""
        assert isinstance(model, SpeechToText)
        how = self.recipe.decoding.model_copy(update={"beam": 1, "n_best": 1, "ctc": 0.0, "coverage_penalty": 0.0})
        found = listen(model, [self._features(one) for one in some], how)
        return [self.tokenizer.decode(hypotheses[0].tokens) for hypotheses in found]

    def _features(self, one: Utterance | Input) -> Features:
        """Of a recording as a whole."""
        sound = self.recipe.data.sound
        if isinstance(one, Utterance):
            return log_mel(one.samples, sound)
        if isinstance(one, Sound):
            return features_of(one, sound)
        try:
            return features_of(read_sound(Path(one).expanduser()), sound)
        except SoundError as problem:
            raise CallError(f"{one}: {problem}") from None

    def _language(self, model: SpeechToText) -> LanguageModelVoice | None:
        how = self.recipe.decoding
        if how.language_model is None:
            return None
        return voice(how.language_model, how.language_model_weight, self.tokenizer, next(model.parameters()).device)

    @property
    def tokenizer(self) -> Tokenizer:
        assert self._tokenizer is not None, "prepare or restore comes first"
        return self._tokenizer

    @property
    def data(self) -> PreparedSpeech:
        assert self._prepared is not None, "prepare comes first"
        return self._prepared
