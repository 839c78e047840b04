"""Transcripts with times: long recordings in windows, with CTC and a language model."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from regard.inputs.sound.item import SoundItem
from regard.light.helped import Joint, LanguageModelVoice
from regard.light.other_run import load_other_run
from regard.light.rules import Hypothesis
from regard.light.writing import LightWriter
from regard.look.records import AttentionRecord
from regard.outputs.text.seen import CrossAttention
from regard.outputs.text.timing import heard
from regard.outputs.text.token_places import token_places
from regard.outputs.text.transcript import Transcript, in_windows, looked_at, note_of, streamed


class LightTranscripts(LightWriter):
    def _joint(self, how: Any) -> Joint | None:
        ctc = how.ctc if "ctc" in self.about.graphs["encoder"]["outputs"] else 0.0
        voice = None if how.language_model is None else self._voice(how.language_model, how.language_model_weight)
        return Joint(self._steps, ctc, voice) if ctc or voice else None

    def _voice(self, folder: str, weight: float) -> LanguageModelVoice:
        other = load_other_run(self.about, "language_model", folder, "continuation")
        places = token_places(f"decoding.language_model={folder}", other.tokenizer, self.tokenizer)
        return LanguageModelVoice(other.reader, weight, np.array(places))

    def predict(self, inputs: Sequence[Any], *, prefix: str = "", attention: bool = False) -> list[Any]:
        def said(items: list[SoundItem], begin: str) -> list[Any]:
            return super(LightTranscripts, self).predict(items, prefix=begin, attention=attention)

        return [*in_windows(self.input, inputs, self.recipe.decoding, prefix, said)]

    def stream(self, one: Any, tell: Callable[[str, str], None], *, prefix: str = "") -> Transcript:
        def of_window(item: SoundItem, told: Any, begin: str) -> Any:
            return super(LightTranscripts, self).stream(item, told, prefix=begin)

        return streamed(self.input.pieces(one, self.recipe.decoding.window), tell, prefix, of_window)

    def _prediction(self, one: Any, item: SoundItem, hypotheses: Sequence[Hypothesis], attention: bool) -> Transcript:
        return super()._prediction(one, item, hypotheses, attention and not item.silent)  # pyright: ignore[reportReturnType]

    def _told(
        self, one: Any, item: SoundItem, hypotheses: Sequence[Hypothesis], seen: CrossAttention | None, attention: bool
    ) -> Transcript:
        said, ids = super()._told(one, item, hypotheses, seen, attention), hypotheses[0].tokens
        words, tokens = ((), ()) if seen is None else heard(self.tokenizer, ids, seen, self.input.axis(item), item)
        return Transcript(said.input, said.n_best, said.alignment, item.seconds, words, tokens, note_of(item))

    def look(self, one: Any, output: str | None, prefix: str) -> list[AttentionRecord]:
        return super().look(looked_at(self.input, one, self.recipe.decoding.window), output, prefix)
