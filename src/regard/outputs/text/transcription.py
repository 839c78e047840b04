"""Transcription: long recordings in windows, CTC and a language model, times of words.

recording → windows → Memory → search with CTC and a language model → text → times of words
"""

import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, ClassVar

from regard.data.examples import Example, Examples
from regard.decoding.protocol import Hypothesis
from regard.errors import CallError
from regard.inputs.sound.input import SoundInput
from regard.inputs.sound.item import SoundItem
from regard.metrics.error_rates import edit_distance
from regard.metrics.speech import error_rates
from regard.models.ctc import SpeechToText
from regard.models.seq2seq import Seq2Seq
from regard.outputs.base import LookOptions, Told
from regard.outputs.baselines import ROWS, most_frequent
from regard.outputs.batched import device_of
from regard.outputs.result import Measure, Prediction, Scores, Tally
from regard.outputs.text.output import TextOutput
from regard.outputs.text.seen import CrossAttention
from regard.outputs.text.shallow_fusion import language_model_voice
from regard.outputs.text.timing import heard
from regard.outputs.text.transcribe_settings import TranscribeRecipe
from regard.outputs.text.transcript import Transcript, in_windows, joined, looked_at, note_of, streamed
from regard.outputs.text.transcript_scores import Times, transcript_scores

MEASURED = 256  # recordings per batch of measured times


class Transcription(TextOutput[TranscribeRecipe, SoundInput]):
    takes_alignments: ClassVar[bool] = True
    draws_alone: ClassVar[bool] = False  # the windows of all recordings are numbered together

    def helped_by(self, model: Seq2Seq) -> dict[str, Any]:
        how, device = self.recipe.decoding, device_of(model)
        found: dict[str, Any] = {"ctc": how.ctc} if how.ctc and isinstance(model, SpeechToText) and model.ctc else {}
        if (name := how.language_model) is not None:
            found["language"] = language_model_voice(name, how.language_model_weight, self.tokenizer, device)
        return found

    # ----------------------------------------------------------------------------------------------------- prediction
    def predict(
        self, model: Seq2Seq, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False
    ) -> list[Prediction]:
        def said(items: list[SoundItem], begin: str) -> list[Prediction]:
            return super(Transcription, self).predict(model, items, prefix=begin, attention=attention)

        return [*in_windows(self.input, inputs, self.recipe.decoding, prefix, said)]

    def pieces(self, one: Any) -> list[tuple[Any, Any]]:
        return [(item, item) for item in self.input.pieces(one, self.recipe.decoding.window)]

    def joined(self, predictions: list[Any]) -> Prediction:
        return joined(predictions)

    def stream(self, model: Seq2Seq, one: Any, tell: Callable[[str, str], None], *, prefix: str = "") -> Transcript:
        def of_window(item: SoundItem, told: Any, begin: str) -> Prediction:
            return super(Transcription, self).stream(model, item, told, prefix=begin)

        return streamed(self.input.pieces(one, self.recipe.decoding.window), tell, prefix, of_window)

    def prediction(
        self, one: Any, item: SoundItem, hypotheses: list[Hypothesis], seen: CrossAttention | None, attention: bool
    ) -> Transcript:
        """Return the prediction of one window, with times in the recording."""
        said = super().prediction(one, item, hypotheses, None if item.silent else seen, attention)
        ids, times = hypotheses[0].tokens, self.input.axis(item)
        words, tokens = ((), ()) if seen is None else heard(self.tokenizer, ids, seen, times, item)
        return Transcript(said.input, said.n_best, said.alignment, item.seconds, words, tokens, note_of(item))

    # --------------------------------------------------------------------------------------------------------- looking
    def tell(self, model: Seq2Seq, one: Any, options: LookOptions) -> list[Told]:
        return super().tell(model, looked_at(self.input, one, self.recipe.decoding.window), options)

    # ------------------------------------------------------------------------------------------------------ evaluation
    def quick_scores(self, said: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
        rates = error_rates(said, [example.texts[0] for example in examples])
        return {name: rates[name] for name in ("wer", "cer", "exact_match")}

    def test_scores(self, model: Seq2Seq, examples: Sequence[Example], alignments: bool) -> Scores:
        """Return error rates on the test data, speed and, if gold times are known, timing scores."""
        begin = time.perf_counter()
        found: list[Any] = self.predict(model, [example.input for example in examples])
        took, seconds = time.perf_counter() - begin, sum(one.seconds for one in found)
        scores = self.scores(model, [one.text for one in found], examples, alignments)
        scores.values["real_time_factor"] = took / max(seconds, 1e-9)
        scores.notes["sound"] = f"{seconds:,.0f} seconds of sound in {took:,.1f} seconds"
        return scores

    def measure(self) -> Measure:
        return Measure("wer", higher_is_better=False)

    def baselines(self, train: Examples, examples: Sequence[Example]) -> dict[str, list[str]]:
        texts = (text for text, _ in islice(train.targets_read(), ROWS))
        return {"most frequent text": [most_frequent(texts)] * len(examples)}

    def tally(self, answers: Sequence[str], examples: Sequence[Example]) -> Tally:
        """Return the numbers of wrong words and of words of the reference."""
        pairs = [(said.split(), example.texts[0].split()) for said, example in zip(answers, examples, strict=True)]
        return Tally.of_shares([(edit_distance(said, right), len(right)) for said, right in pairs], percent=True)

    def scores(self, model: Seq2Seq, said: Sequence[str], examples: Sequence[Example], alignments: bool) -> Scores:
        timed = [example for example in examples if example.gold]
        if alignments and not timed:
            raise CallError("the test data has no word timings; remove alignments")
        times = Times(self.tokenizer, by_head=alignments)
        for start in range(0, len(timed), MEASURED):
            for one in self.forced(model, timed[start : start + MEASURED], self.recipe.decoding.batch_tokens):
                times.add(one, self.input.axis(one.item).edges)
        return transcript_scores(said, [example.texts[0] for example in examples], times)
