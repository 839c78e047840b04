"""Token-by-token continuation of several texts at once: `regard.decoding.continuing` over arrays.

Texts share positions, as there: all prompts are read up to the end of the shortest, and the longer ones are fed their
next tokens. When `context` is full, its last half is read again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.light.draw import draw, generators
from regard.light.rules import normalizer
from regard.light.session import Arrays, Session, seen_in
from regard.work import before_step


class Written(NamedTuple):
    """The next token of text `row`, and its log-probability under the model."""

    row: int
    token: int
    log_probability: float


class Reader:
    """A language model: tokens, and keys and values of previous ones → logits, keys and values."""

    def __init__(self, decoder: Session, shapes: Mapping[str, Any]) -> None:
        self._decoder = decoder
        self._empty = {name: about["shape"] for name, about in shapes.items() if name != "tokens"}

    def start(self, rows: int) -> Arrays:
        """Return the empty cache: keys and values of length 0."""
        sizes: dict[Any, Any] = {"rows": rows, "past": 0}
        shapes = {name: tuple(int(sizes.get(size, size)) for size in shape) for name, shape in self._empty.items()}
        return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}

    def read(self, tokens: Sequence[Sequence[int]] | np.ndarray, past: Arrays) -> tuple[np.ndarray, Arrays]:
        """Return the logits of every token: N T V."""
        before_step(sum(map(len, tokens)))
        out = self._decoder({"tokens": np.asarray(tokens, np.int64), **past})
        return out["logits"], {name: out[f"next_{name}"] for name in past}

    def look(self, tokens: Sequence[int]) -> tuple[np.ndarray, Arrays]:
        """Return logits (T V) and attention weights of one whole text."""
        before_step(len(tokens))
        out = self._decoder({"tokens": np.asarray([tokens], np.int64), **self.start(1)}, watch=True)
        return out["logits"][0], seen_in(out)


def continued(
    model: Reader,
    prompts: Sequence[Sequence[int]],
    how: Any,
    *,
    context: int,
    max_length: int,
    end: int | None,
    forbidden: Sequence[int],
    ended: Callable[[Written], bool],
) -> Iterator[Written]:
    """Yield generated tokens. `how` has temperature, top_k, top_p, repetition_penalty and seed."""
    texts = [list(prompt)[-(context - 1) :] for prompt in prompts]
    chance = generators(prompts, how.seed)
    left = [max_length] * len(texts)
    rows = list(range(len(texts)))  # the text of each row
    known = length = min(map(len, texts), default=0)  # tokens of each text that were read, and that are in the cache
    if not rows:
        return
    logits, past = model.read([text[:known] for text in texts], model.start(len(rows)))
    while rows:
        chosen, told = _choose(logits[:, -1], texts, rows, known, how, chance, forbidden)
        staying = []
        for place, (row, token, log_probability) in enumerate(zip(rows, chosen, told, strict=True)):
            if known < len(texts[row]):  # still in its prompt
                staying.append(place)
                continue
            texts[row].append(token)
            left[row] -= 1
            written = Written(row, token, log_probability)
            yield written
            if token != end and left[row] > 0 and not ended(written):
                staying.append(place)
        if not staying:
            return
        known += 1
        if len(staying) < len(rows):
            past = {name: array[staying] for name, array in past.items()}
            rows = [rows[place] for place in staying]
        if length >= context:
            length = max(1, context // 2)
            logits, past = model.read([texts[row][known - length : known] for row in rows], model.start(len(rows)))
        else:
            length += 1
            logits, past = model.read([[texts[row][known - 1]] for row in rows], past)


def _choose(
    logits: np.ndarray,
    texts: Sequence[Sequence[int]],
    rows: Sequence[int],
    known: int,
    how: Any,
    chance: Sequence[Any],
    forbidden: Sequence[int],
) -> tuple[list[int], list[float]]:
    """Return the next token of each row, and its log-probability. Rows inside their prompt use no random numbers."""
    own = logits - normalizer(logits)[:, None]
    logits = logits.copy()
    logits[:, list(forbidden)] = -np.inf
    if how.repetition_penalty != 1.0:
        for place, row in enumerate(rows):
            said = sorted(set(texts[row][:known]))
            old = logits[place, said]
            logits[place, said] = np.where(old > 0, old / how.repetition_penalty, old * how.repetition_penalty)
    if how.temperature == 0.0:
        tokens = logits.argmax(axis=1)
    else:
        uniform = np.array([chance[row](1)[0] if known >= len(texts[row]) else 0.0 for row in rows], np.float32)
        tokens = draw(logits / np.float32(how.temperature), uniform, top_k=how.top_k, top_p=how.top_p)
    return tokens.tolist(), own[np.arange(len(tokens)), tokens].tolist()
