"""What was said and when: a prediction with times, as text, WebVTT or TextGrid."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.errors import CallError, nearest
from regard.files.subtitles import Heard, in_order, text_grid, web_vtt
from regard.outputs.result import Candidate, Prediction

SILENT = "silent: there is nothing to hear"
CLIPPED = "clipped: recorded too loud, so parts of the sound are lost"


@dataclass(frozen=True)
class Transcript(Prediction):
    """A prediction for a recording of `seconds`; what was heard when is there if it was predicted with attention."""

    seconds: float = 0.0
    words: tuple[Heard, ...] = ()
    tokens: tuple[Heard, ...] = ()
    note: str = ""  # what is the matter with the recording

    def written(self, form: str) -> str:
        """As a file of this format: vtt or textgrid."""
        if form not in ("vtt", "textgrid"):
            raise CallError(f"format {form!r} is not known for transcripts{nearest(form, ('vtt', 'textgrid'))}")
        if form == "vtt":
            return web_vtt(self.words)
        return text_grid({"words": self.words, "tokens": self.tokens}, self.seconds)


def joined(windows: Sequence[Transcript]) -> Transcript:
    """Of a whole recording, from those of its windows; there is no one list of alternatives for many of them."""
    first, end = windows[0], sum(one.seconds for one in windows)
    words = in_order([word for one in windows for word in one.words], end)
    tokens = in_order([token for one in windows for token in one.tokens], end)
    if len(windows) == 1:
        return replace(first, words=words, tokens=tokens)
    best = [one.n_best[0] for one in windows]
    text = " ".join(filter(None, (one.text.strip() for one in best)))
    whole = Candidate(text, *(sum(getattr(one, name) for one in best) for name in ("log_probability", "score")))
    notes = {one.note for one in windows}
    note = SILENT if notes == {SILENT} else CLIPPED if CLIPPED in notes else ""
    return Transcript(first.input, [whole], seconds=end, words=words, tokens=tokens, note=note)
