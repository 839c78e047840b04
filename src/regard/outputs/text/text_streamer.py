"""Streamed text: converts tokens into final text while it is generated.

A token may be part of a character (bytes), and text may be the beginning of a stop text. The text of `new_text` is
final.
"""

from collections.abc import Sequence

from regard.data.tokenizer import Tokenizer

HALF = "\ufffd"  # decoding of an incomplete character


class TextStreamer:
    """The text after a prompt and a prefix; `log_probability` is that of its tokens."""

    def __init__(self, tokenizer: Tokenizer, prompt: str, prefix: str = "", stop: Sequence[str] = ()) -> None:
        self._tokenizer, self._stop = tokenizer, [text for text in stop if text]
        self.begin = prompt + prefix
        self._prompt = tokenizer.encode(self.begin)
        self._before = len(tokenizer.decode(self._prompt))
        self.ids: list[int] = []
        self._told = 0  # characters returned by `new_text`
        self.log_probability = 0.0

    def add(self, token: int, log_probability: float) -> None:
        self.ids.append(token)
        self.log_probability += log_probability

    @property
    def text(self) -> str:
        """Return all generated text up to the first stop text."""
        whole = self._whole()
        return whole[: min((place for place in map(whole.find, self._stop) if place >= 0), default=len(whole))]

    @property
    def stopped(self) -> bool:
        whole = self._whole() if self._stop else ""
        return any(text in whole for text in self._stop)

    def new_text(self, last: bool = False) -> str:
        """Return the final text since the last call; after the last token, all of it."""
        text = self.text
        certain = len(text)
        if not last and not self.stopped:
            certain = len(text.rstrip(HALF))
            for stop in self._stop:  # the end of the text may be the beginning of a stop text
                longest = min(len(stop) - 1, certain)
                held = next((n for n in range(longest, 0, -1) if text[:certain].endswith(stop[:n])), 0)
                certain = min(certain, len(text[:certain]) - held)
        piece = text[self._told : certain]
        self._told = max(self._told, certain)
        return piece

    def _whole(self) -> str:
        return self._tokenizer.decode([*self._prompt, *self.ids])[self._before :]
