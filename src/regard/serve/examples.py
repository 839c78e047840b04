"""A few validation examples of each model for its page, read once in the background.

A file input has a name such as `example:3`, which can be used like the name of an upload.
"""

import logging
from collections.abc import Mapping
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.data.example import Example
from regard.look.backdrop import to_png
from regard.serve.uploads import WHAT

if TYPE_CHECKING:
    from regard.loading import AnyRun

log = logging.getLogger("regard.serve")
PREFIX = "example:"
MOST = 6
SIDE, STEPS, BANDS = 96, 96, 24  # thumbnail: pixels of a picture; steps and bands of a sound or a series


class ModelExamples:
    """Validation examples by model. Thread-safe."""

    def __init__(self, runs: "Mapping[str, AnyRun]") -> None:
        self._runs, self._found = runs, dict[str, list[Example]]()
        self._locks = {name: Lock() for name in runs}

    def start(self) -> None:
        """Read all examples in the background, one model after the other."""
        Thread(target=lambda: [self.of(name) for name in self._runs], name="examples", daemon=True).start()

    def of(self, name: str) -> list[Example]:
        """Return the examples; None if the run's data is missing, as for an imported or moved model."""
        with self._locks[name]:
            if name not in self._found:
                try:
                    self._found[name] = self._runs[name].examples(MOST)
                except Exception as error:  # a page without examples is better than no page
                    log.info("no examples for %s: %s", name, error)
                    self._found[name] = []
            return self._found[name]

    def part(self, name: str, word: str, place: int) -> Any:
        """Return the input of `example:3`, or None; `place` selects one part of an input with two."""
        number = word.removeprefix(PREFIX)
        examples = self.of(name) if word.startswith(PREFIX) and number.isdecimal() and len(number) < 4 else []
        if not number.isdecimal() or int(number) >= len(examples):
            return None
        one = examples[int(number)].input
        return one[place] if len(self._runs[name].job.input.kinds) > 1 else one

    def described(self, name: str, longest: int) -> list[dict[str, Any]]:
        """Return the examples for the page: input, target, and a picture of inputs that are not text."""
        run = self._runs[name]
        found = (self._described(run, number, one) for number, one in enumerate(self.of(name)))
        return [one for one in found if len(one["text"]) <= longest]

    def _described(self, run: "AnyRun", number: int, example: Example) -> dict[str, Any]:
        input = run.job.input
        parts = example.input if len(input.kinds) > 1 else (example.input,)
        words = [
            f"{PREFIX}{number}" if kind in WHAT else part if isinstance(part, str) else input.word(part)
            for kind, part in zip(input.kinds, parts, strict=True)
        ]
        right = example.texts[0] if example.texts else ""
        seen: dict[str, Any] = _thumbnail(run, example.input) if any(kind in WHAT for kind in input.kinds) else {}
        return {"text": "\t".join(words), "right": right, **seen}


def _thumbnail(run: "AnyRun", one: Any) -> dict[str, Any]:
    axis = run.job.input.axis(run.job.input.read(one))
    if axis.image is not None:
        step = max(1, max(axis.image.shape) // SIDE)
        return {"image": to_png(np.ascontiguousarray(axis.image[::step, ::step]))}
    if axis.signal is None:
        return {}
    bands = np.atleast_2d(axis.signal)
    rows, columns = (np.linspace(0, size - 1, min(size, most)).astype(int) for size, most in
                     zip(bands.shape, (BANDS, STEPS), strict=True))  # fmt: skip
    when = {} if axis.unit == "s" else {"when": f"{axis.labels[0]} to {axis.labels[-1]}"}
    return {"signal": np.round(bands[np.ix_(rows, columns)], 3).tolist(), **when}
