"""Recordings of any length into transcripts, a few windows at a time: memory does not grow with the recording."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.data.tokenizer import Tokenizer
from regard.decoding.ctc_joint import LanguageModelVoice
from regard.decoding.protocol import Hypothesis
from regard.errors import CallError
from regard.inputs.sound.features import log_mel
from regard.inputs.sound.recording import Sound, SoundError, SoundFile, is_clipped, is_silent
from regard.inputs.sound.resample import resample
from regard.inputs.sound.windows import windows
from regard.models.ctc import SpeechToText
from regard.old_job import Alignment, Output
from regard.outputs.text.listening import Attended, Clock, Features, attended, listen
from regard.outputs.text.transcribe_settings import SoundSettings, SpeechDecodingSettings
from regard.outputs.text.transcript import Heard, Transcript, in_order

Input = str | Path | Sound
AT_ONCE = 4  # times decoding.batch_tokens: frames that are kept until windows of like length are decoded together


@dataclass
class _Part:
    """One window of a recording: when it begins, its features, and what became of them."""

    start: float
    seconds: float
    features: Features | None  # None once it is decoded, and for silence
    found: list[Hypothesis] = field(default_factory=lambda: [Hypothesis([], 0.0, 0.0)])
    seen: Attended | None = None


@dataclass
class _Recording:
    """One recording on its way."""

    name: str
    parts: list[_Part] = field(default_factory=list)
    seconds: float = 0.0
    clipped: bool = False


class Transcriber:
    """What is the same for all recordings of a call."""

    def __init__(
        self,
        model: SpeechToText,
        tokenizer: Tokenizer,
        sound: SoundSettings,
        how: SpeechDecodingSettings,
        clock: Clock,
        *,
        prefix: str = "",
        attention: bool = False,
        language: LanguageModelVoice | None = None,
    ) -> None:
        self.model, self.tokenizer, self.sound, self.how, self.clock = model, tokenizer, sound, how, clock
        self.prefix, self.attention, self.language = tokenizer.encode(prefix), attention, language

    def transcripts(self, inputs: Iterable[Input]) -> Iterator[Transcript]:
        """In the order of the inputs. A recording that cannot be read is a `CallError` that names it."""
        recordings: list[_Recording] = []
        waiting: list[_Part] = []
        for one in inputs:
            recordings.append(_Recording(one if isinstance(one, str) else "" if isinstance(one, Sound) else str(one)))
            for part in self._parts(one, recordings[-1]):
                recordings[-1].parts.append(part)
                if part.features is not None:
                    waiting.append(part)
                if sum(len(p.features) for p in waiting if p.features is not None) > AT_ONCE * self.how.batch_tokens:
                    self._decode(waiting)
                    yield from (self._transcript(recording) for recording in recordings[:-1])
                    recordings, waiting = recordings[-1:], []
        self._decode(waiting)
        yield from (self._transcript(recording) for recording in recordings)

    def _parts(self, one: Input, whole: _Recording) -> Iterator[_Part]:
        try:
            recording = one if isinstance(one, Sound) else SoundFile(Path(one).expanduser())
            whole.seconds = recording.seconds
            for window in windows(recording, self.how.window):
                whole.clipped = whole.clipped or is_clipped(window.sound.samples)
                features = None
                if not is_silent(window.sound.samples):
                    features = features_of(window.sound, self.sound)
                yield _Part(window.start, window.sound.seconds, features)
            if isinstance(recording, SoundFile):
                recording.close()
        except SoundError as problem:
            raise CallError(f"{whole.name}: {problem}") from None

    def _decode(self, parts: Sequence[_Part]) -> None:
        features = [part.features for part in parts if part.features is not None]
        found = listen(self.model, features, self.how, prefix=self.prefix, language=self.language)
        seen: Sequence[Attended | None] = [None] * len(parts)
        if self.attention and features:
            best = [hypotheses[0].tokens for hypotheses in found]
            seen = attended(self.model, features, best, self.how.batch_tokens)
        for part, hypotheses, looked in zip(parts, found, seen, strict=True):
            part.found, part.seen, part.features = hypotheses, looked, None

    # -------------------------------------------------------------------------------------------------- what it says
    def _transcript(self, one: _Recording) -> Transcript:
        parts = one.parts
        if len(parts) == 1:
            n_best = [Output(self.tokenizer.decode(h.tokens), h.score, h.log_probability) for h in parts[0].found]
        else:  # there is no one list of alternatives for many windows
            best = [part.found[0] for part in parts]
            text = " ".join(filter(None, (self.tokenizer.decode(h.tokens).strip() for h in best)))
            n_best = [Output(text, sum(h.score for h in best), sum(h.log_probability for h in best))]
        note = ""
        if all(part.seen is None and not part.found[0].tokens and part.found[0].score == 0 for part in parts):
            note = "silent: there is nothing to hear"
        elif one.clipped:
            note = "clipped: recorded too loud, so parts of the sound are lost"
        words, tokens = self._heard(parts)
        return Transcript(
            one.name, n_best, self._alignment(parts) if self.attention else None,
            seconds=one.seconds, words=in_order(words, one.seconds), tokens=in_order(tokens, one.seconds), note=note,
        )  # fmt: skip

    def _heard(self, parts: Sequence[_Part]) -> tuple[list[Heard], list[Heard]]:
        words: list[Heard] = []
        tokens: list[Heard] = []
        for part in parts:
            ids = part.found[0].tokens
            spans = None if part.seen is None else self.clock.spans(part.seen, len(ids))
            if spans is None or not ids:
                continue
            times = np.clip(part.start + spans, part.start, part.start + part.seconds).tolist()
            labels = self.tokenizer.labels(ids)
            tokens += [Heard(label, *time) for label, time in zip(labels, times, strict=True)]
            words += _words(self.tokenizer, ids, times)
        return words, tokens

    def _alignment(self, parts: Sequence[_Part]) -> Alignment | None:
        """Of a recording that is one window: tokens × the times of the memory's vectors."""
        if len(parts) != 1 or parts[0].seen is None or not parts[0].seen.weights:
            return None
        ids, seen = parts[0].found[0].tokens, parts[0].seen
        times = self.clock.middles(seen.mean.shape[1])
        return Alignment(self.tokenizer.labels([*ids, 3]), [f"{time:.2f}" for time in times], seen.weights)


def features_of(sound: Sound, how: SoundSettings) -> Features:
    return log_mel(resample(sound.samples, sound.rate, how.rate), how)


def _words(tokenizer: Tokenizer, ids: Sequence[int], times: Sequence[tuple[float, float]]) -> list[Heard]:
    """What spaces separate, each from the first to the last of its tokens."""
    text, found, place = tokenizer.decode(ids), [], 0
    spans = tokenizer.decoded_spans(ids)
    for word in text.split():
        start = text.index(word, place)
        place = start + len(word)
        own = [time for span, time in zip(spans, times, strict=True) if span.start < place and span.end > start]
        if own:
            found.append(Heard(word, min(time[0] for time in own), max(time[1] for time in own)))
    return found
