"""Text generation with a language model, token by token, several texts at once.

    read the prompt;   then y_t ~ p(y | y_<t), drawn as `sample` draws, until the end token or a limit

Texts share positions: all prompts are read up to the end of the shortest, and the longer ones are fed what they say
anyway until they end. So there is no padding, and a text comes out the same alone and in company.

A model looks back at `context` tokens. When they are full, the last half of them is read anew, and so on: every token
is written with half a context before it at least, at the cost of one more reading every context/2 tokens.

Repetition penalty: Keskar et al. 2019, section 4.1 (arXiv:1909.05858): logits of tokens that the text has already are
divided by θ where they are positive, and multiplied by it where they are not.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.sample import draw
from regard.decoding.top import most_probable, normalizer
from regard.work import before_step


@runtime_checkable
class Reads(Protocol):
    """The interface of a language model."""

    def start(self, rows: int, *, places: int) -> Any: ...

    def read(self, tokens: Int[Tensor, "N T"], state: Any) -> tuple[Float[Tensor, "N D"], Any]: ...

    def step(self, tokens: Int[Tensor, " N"], state: Any) -> tuple[Float[Tensor, "N D"], Any]: ...

    def logits(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]: ...


class Sampling(NamedTuple):
    """How the next token is chosen; temperature 0 takes the most probable."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0


class Written(NamedTuple):
    """A generated token of text `row`, and its log-probability under the model."""

    row: int
    token: int
    log_probability: float


def continued(
    model: Reads,
    prompts: Sequence[Sequence[int]],
    how: Sampling,
    *,
    context: int,
    max_length: int,
    end: int | None,
    forbidden: Sequence[int] = (),
    device: torch.device,
    ended: Callable[[Written], bool] = lambda written: False,
) -> Iterator[Written]:
    """Yield tokens as they are generated. A text ends with the token `end` (also yielded), or when `ended` is true.

    Random numbers of a text depend on the seed and its prompt, so that it is the same alone and in a batch.
    The second of two equal prompts gets other numbers than the first.
    """
    texts = [list(prompt)[-(context - 1) :] for prompt in prompts]
    if not all(texts):
        raise ValueError("a prompt needs a token at least: the one that begins a text")
    chance = _generators(prompts, how.seed)
    left = [max_length] * len(texts)  # tokens that each may still write
    places = min(context, max(map(len, texts), default=0) + max_length)  # tokens that a text can come to
    rows = list(range(len(texts)))  # the text of each row of the state
    known = min(map(len, texts), default=0)  # tokens of each text that are in the state
    with torch.inference_mode():
        features, state = _read(model, [texts[row][:known] for row in rows], places, device)
    while rows:
        with torch.inference_mode():
            chosen, told = _choose(model.logits(features), texts, rows, known, how, chance, forbidden)
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
        with torch.inference_mode():
            if len(staying) < len(rows):
                state = state.select(torch.tensor(staying, device=device))
                rows = [rows[place] for place in staying]
            if state.length >= context:
                half = max(1, context // 2)
                features, state = _read(model, [texts[row][known - half : known] for row in rows], places, device)
            else:
                before_step(len(rows))
                last = torch.tensor([texts[row][known - 1] for row in rows], device=device)
                features, state = model.step(last, state)


def _generators(prompts: Sequence[Sequence[int]], seed: int) -> list[torch.Generator]:
    seen: Counter[tuple[int, ...]] = Counter()
    made = []
    for prompt in map(tuple, prompts):
        digest = blake2b(f"{seed} {seen[prompt]} {prompt}".encode(), digest_size=8).digest()
        made.append(torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1))
        seen[prompt] += 1
    return made


def _read(model: Reads, texts: list[list[int]], places: int, device: torch.device) -> tuple[Tensor, Any]:
    before_step(sum(map(len, texts)))
    return model.read(torch.tensor(texts, device=device), model.start(len(texts), places=places))


def _choose(
    logits: Float[Tensor, "N V"],
    texts: list[list[int]],
    rows: list[int],
    known: int,
    how: Sampling,
    chance: list[torch.Generator],
    forbidden: Sequence[int],
) -> tuple[list[int], list[float]]:
    """Return the next token of each row, and its log-probability. Rows inside their prompt are not sampled."""
    own = logits = logits.float()  # sums of very many numbers
    scale = normalizer(own)
    if forbidden:
        logits = logits.index_fill(1, torch.tensor(forbidden, device=logits.device), -torch.inf)
    if how.repetition_penalty != 1.0:
        logits = logits.clone()
        for place, row in enumerate(rows):
            said = torch.tensor(sorted(set(texts[row][:known])), device=logits.device)
            old = logits[place, said]
            logits[place, said] = torch.where(old > 0, old / how.repetition_penalty, old * how.repetition_penalty)
    if how.temperature == 0.0:
        value, tokens = most_probable(logits)
        if how.repetition_penalty == 1.0:
            return tokens.tolist(), (value - scale).tolist()
    else:
        writing = [known >= len(texts[row]) for row in rows]
        numbers = [float(torch.rand((), generator=chance[r])) if w else 0.0 for r, w in zip(rows, writing, strict=True)]
        uniform = torch.tensor(numbers, device=logits.device)
        tokens = draw(logits / how.temperature, uniform, top_k=how.top_k or None, top_p=how.top_p)
    return tokens.tolist(), (own.gather(1, tokens.unsqueeze(1)).squeeze(1) - scale).tolist()
