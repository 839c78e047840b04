"""What a transcript has beside other texts: long recordings in windows, CTC and a language model, times of words.

recording → windows → Memory → search, with what helps it → text → when each word was heard
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from regard.corpora.tones import Segment
from regard.data.examples import Example
from regard.data.tokenizer import Tokenizer
from regard.decoders.decoder import Decoder
from regard.decoding.ctc_joint import LanguageModelVoice
from regard.decoding.protocol import Hypothesis
from regard.errors import CallError
from regard.files.subtitles import Heard
from regard.inputs.sound.input import SoundInput, SoundItem
from regard.metrics.error_rates import edit_distance
from regard.metrics.speech import error_rates, timing
from regard.models.ctc import SpeechToText
from regard.models.language_model import LanguageModel
from regard.models.seq2seq import Seq2Seq
from regard.other_run import load_other_run
from regard.outputs.base import LookOptions, Told
from regard.outputs.batched import device_of
from regard.outputs.result import Prediction, Scores
from regard.outputs.text.cross_attention import CrossAttention, cross_attention
from regard.outputs.text.output import TextOutput
from regard.outputs.text.timing import READINGS, by_head, pieces, readings, spans, words_heard
from regard.outputs.text.transcribe_settings import TranscribeRecipe
from regard.outputs.text.transcript import CLIPPED, SILENT, Transcript, joined
from regard.special_tokens import SPECIAL_TOKENS

WAITING = 4  # times decoding.batch_tokens: frames that are kept until windows of like length are decoded together
MEASURED = 256  # recordings whose times are measured together
WORST = 10  # transcripts with the most errors, which may be mislabeled recordings


class Transcription(TextOutput[TranscribeRecipe, SoundInput]):
    takes_alignments: ClassVar[bool] = True

    def assembled(self, encoder: nn.Module, decoder: Decoder) -> SpeechToText:
        s = self.recipe.model
        return SpeechToText(
            encoder, decoder, tie=s.tied, bias=s.output_bias, label_smoothing=s.label_smoothing, ctc=s.ctc
        )

    def helped_by(self, model: Seq2Seq) -> dict[str, Any]:
        how, found = self.recipe.decoding, {}
        if how.ctc and isinstance(model, SpeechToText) and model.ctc is not None:
            found["ctc"] = how.ctc
        if how.language_model is not None:
            found["language"] = self._language_model(how.language_model, device_of(model))
        return found

    def _language_model(self, folder: str, device: torch.device) -> LanguageModelVoice:
        """A run of the job `generate` as a second opinion (shallow fusion, see `decoding/ctc_joint.py`). It has to know
        every token of ours, in whatever order."""
        field = "decoding.language_model"
        job, model = load_other_run(field, folder, "generate", device)
        theirs: Tokenizer = job.input.tokenizer
        if theirs.pieces(range(len(SPECIAL_TOKENS))) != SPECIAL_TOKENS:
            raise CallError(f"{field}={folder} has a vocabulary of another tool, with other tokens for begin and end")
        assert isinstance(model, LanguageModel)
        places = {piece: number for number, piece in enumerate(theirs.pieces(range(theirs.size)))}
        pieces = self.tokenizer.pieces(range(self.tokenizer.size))
        unknown = [piece for piece in pieces if piece not in places]
        if unknown:
            raise CallError(
                f"{field}={folder} does not know {len(unknown)} of the {len(pieces)} tokens of this model, "
                f"such as {unknown[0]!r}: both must have the same kind of tokens, learned from the same texts "
                "(data.tokenizer.kind=character in both will do)"
            )
        names = torch.tensor([places[piece] for piece in pieces], device=device)
        return LanguageModelVoice(model, model.start, self.recipe.decoding.language_model_weight, names)

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(
        self, model: Seq2Seq, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        """Window by window, a few at a time: memory does not grow with the recording."""
        how = self.recipe.decoding
        found: list[list[Any]] = [[] for _ in inputs]
        waiting: list[tuple[int, SoundItem]] = []
        window = super().predict

        def decode() -> None:
            for begin in {prefix: None, "": None}:  # only the first window of a recording begins with the prefix
                some = [one for one in waiting if not prefix or (one[1].start == 0) == bool(begin)]
                said = window(model, [item for _, item in some], prefix=begin, attention=attention)
                for (number, _), one in zip(some, said, strict=True):
                    found[number].append(one)
            waiting.clear()

        for number, one in enumerate(inputs):
            for item in self.input.pieces(one, how.window):
                waiting.append((number, item))
                if sum(len(item.features) for _, item in waiting) > WAITING * how.batch_tokens:
                    decode()
        decode()
        return [joined(windows) for windows in found]

    def stream(self, model: Seq2Seq, one: Any, tell: Callable[[str, str], None], *, prefix: str = "") -> Transcript:
        """One window after the other."""
        windows: list[Any] = []

        def told(piece: str, text: str) -> None:
            tell(piece, " ".join([*filter(None, (said.text.strip() for said in windows)), text]))

        for item in self.input.pieces(one, self.recipe.decoding.window):
            windows.append(super().stream(model, item, told, prefix="" if windows else prefix))
        return joined(windows)

    def prediction(
        self, one: Any, item: SoundItem, hypotheses: list[Hypothesis], seen: CrossAttention | None, attention: bool
    ) -> Transcript:
        """Of one window, with times in the recording."""
        said = super().prediction(one, item, hypotheses, None if item.silent else seen, attention)
        words, tokens = self._heard(item, hypotheses[0].tokens, seen)
        note = SILENT if item.silent else CLIPPED if item.clipped else ""
        return Transcript(
            said.input, said.n_best, said.alignment,
            seconds=item.seconds, words=tuple(words), tokens=tuple(tokens), note=note,
        )  # fmt: skip

    def _heard(
        self, item: SoundItem, ids: Sequence[int], seen: CrossAttention | None
    ) -> tuple[list[Heard], list[Heard]]:
        times = None if seen is None or not ids else spans(seen, len(ids), self.input.axis(item).edges)
        if times is None:
            return [], []
        inside = (item.start + np.clip(times, 0.0, item.seconds)).tolist()
        tokens = [Heard(label, *span) for label, span in zip(self.tokenizer.labels(ids), inside, strict=True)]
        return words_heard(self.tokenizer, ids, tokens), tokens

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Seq2Seq, one: Any, options: LookOptions) -> list[Told]:
        item, window = self.input.read(one), self.recipe.decoding.window
        if item.seconds > window:
            raise CallError(
                f"{item.name} has {item.seconds:.0f} seconds: up to decoding.window={window:g} can be looked at at "
                "once; cut out the part of interest"
            )
        if item.silent:
            raise CallError(f"{item.name} is {SILENT}: there is nothing to look at")
        return super().tell(model, item, options)

    # ------------------------------------------------------------------------------------------------------ evaluation
    def quick_scores(self, said: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
        rates = error_rates(said, [example.texts[0] for example in examples])
        return {name: rates[name] for name in ("wer", "cer", "exact_match")}

    def test_scores(self, model: Seq2Seq, examples: Sequence[Example], alignments: bool) -> Scores:
        """Error rates on the test data, speed and, where gold times are known, whether it looked there."""
        begin = time.perf_counter()
        found: list[Any] = self.predict(model, [example.input for example in examples])
        took, seconds = time.perf_counter() - begin, sum(one.seconds for one in found)
        scores = self.scores(model, [one.text for one in found], examples, alignments)
        scores.values["real_time_factor"] = took / max(seconds, 1e-9)
        scores.notes["sound"] = f"{seconds:,.0f} seconds of sound in {took:,.1f} seconds"
        return scores

    def scores(self, model: Seq2Seq, said: Sequence[str], examples: Sequence[Example], alignments: bool) -> Scores:
        texts = [example.texts[0] for example in examples]
        rates, inside = error_rates(said, texts), [f"inside_{name}" for name in READINGS]
        scores = Scores(rates | {"recordings": float(len(said))}, percent=[*rates, *inside])
        self._measure_times(model, [example for example in examples if example.gold], scores, alignments)
        wrong = [(edit_distance(a.split(), b.split()), a, b) for a, b in zip(said, texts, strict=True) if a != b]
        scores.details["furthest from their texts"] = [
            {"said": a, "text": b, "words wrong": distance} for distance, a, b in sorted(wrong)[::-1][:WORST]
        ]
        return scores

    def _measure_times(self, model: Seq2Seq, examples: Sequence[Example], scores: Scores, alignments: bool) -> None:
        """When each piece of the *reference* was heard, against gold; `alignments`: by every head, too."""
        if alignments and not examples:
            raise CallError("nobody knows when the texts of the test data are heard: leave alignments out")
        heard: dict[str, list[float]] = {}
        for start in range(0, len(examples), MEASURED):
            some = examples[start : start + MEASURED]
            items = [self.input.read(example.input) for example in some]
            targets = [self.tokenizer.encode(example.texts[0]) for example in some]
            looked = cross_attention(model, self.input, items, targets, self.recipe.decoding.batch_tokens)
            for example, item, ids, seen in zip(some, items, targets, looked, strict=True):
                edges = self.input.axis(item).edges
                found = readings(seen, len(ids), edges) | (by_head(seen, len(ids), edges) if alignments else {})
                for name, times in found.items():
                    heard.setdefault(name, []).extend(self._of_segments(example, times))
        gold = [(segment.start, segment.end) for example in examples for segment in example.gold]
        rows = []
        for name, times in heard.items():
            if len(times) != len(gold):  # CTC found no path for some text that is too long for its sound
                continue
            found = timing(times, gold)
            if name in READINGS:
                scores.values.update({f"inside_{name}": found.inside, f"off_{name}": found.off})
            else:
                rows.append({"attention": name, "inside": found.inside, "off": found.off})
        if rows:
            scores.details["times by layer and head (inside the gold interval, %; seconds off its middle)"] = rows

    def _of_segments(self, example: Example, times: np.ndarray) -> list[float]:
        """When each segment was heard: the mean of its tokens' times."""
        text = example.texts[0]
        places = (pieces(self.tokenizer, text, *span) for span in character_spans(text, example.gold))
        return [float(np.mean(times[own])) for own in places]


def character_spans(text: str, segments: Iterable[Segment]) -> list[tuple[int, int]]:
    """The characters of each segment: they follow each other in the text, with nothing but spaces between."""
    spans, place = [], 0
    for segment in segments:
        start = text.index(segment.text, place)
        place = start + len(segment.text)
        spans.append((start, place))
    return spans
