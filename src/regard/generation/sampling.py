"""Greedy decoding and sampling, and text generation by a language model."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import CallError
from regard.generation.beam import most_probable, normalizer
from regard.generation.engine import (
    Choice,
    Constraints,
    DecoderSteps,
    Hypothesis,
    RunningBatch,
    S,
    Sentence,
    constrain,
    decode_all,
)
from regard.special_tokens import END
from regard.work import before_step

# One output a sentence, token by token: the most probable next token, or whatever else `choose` takes.

ITSELF = [0]  # the one beam that a sentence has goes on from itself
Choose = Callable[[Float[Tensor, "N V"], Sequence[Sentence]], Int[Tensor, " N"]]


def greedily(logits: Float[Tensor, "N V"], _sentences: Sequence[Sentence]) -> Int[Tensor, " N"]:
    """y_t = argmax p(y | y_<t, x)"""
    return most_probable(logits)[1]


@dataclass(frozen=True)
class TokenByToken:
    """`pick(logits, sentences)` takes one token a sentence, until the end symbol. One hypothesis a sentence; its score
    is its log-probability."""

    pick: Choose = greedily

    def choose(self, logits: Float[Tensor, "N V"], batch: RunningBatch) -> Choice:
        scale = normalizer(logits)
        constrain(logits, [(sentence.constraints, sentence.step) for sentence in batch.sentences])
        picked = self.pick(logits, batch.sentences).unsqueeze(1)
        scores = batch.scores + (logits.gather(1, picked) - scale.unsqueeze(1)).to(batch.scores.dtype)
        for row, (sentence, tokens) in enumerate(zip(batch.sentences, picked.tolist(), strict=True)):
            if sentence.done:
                continue
            if tokens[0] == END:
                total = float(scores[row, 0])
                sentence.found, sentence.done = [Hypothesis(sentence.said(), total, total)], True
            else:
                sentence.origins.append(ITSELF)
                sentence.tokens.append(tokens)
        return Choice(picked, scores)


def greedy(
    model: DecoderSteps[S], state: S, constraints: Constraints | Sequence[Constraints]
) -> list[list[Hypothesis]]:
    """The most probable token at each step, for sentences that begin together."""
    return decode_all(model, TokenByToken(), state, constraints)


# Sampling an output from the model's distribution.
#
#     p(y) ∝ exp(logit_y / temperature)   over the top_k most probable tokens,
#                                          or the fewest that hold top_p of the probability
#
# Nucleus sampling (top_p): Holtzman et al. 2019, section 3.1 (arXiv:1904.09751).
#
# Each draw inverts the cumulative distribution at one uniform number. A sentence has numbers of its own, which the
# seed and its own number decide: it comes out the same whoever is decoded with it.

APART = 1_000_003  # seeds of neighbors differ by this, so that no two sentences of near seeds draw alike


class Sampler:
    """Picks a token at random; for `TokenByToken`, whose score is then the log-probability under the model itself."""

    def __init__(self, *, seed: int, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0) -> None:
        if temperature <= 0.0:
            raise CallError(f"temperature={temperature} must be above 0 (greedy is the limit of small ones)")
        if top_k is not None and top_k < 1:
            raise CallError(f"top_k={top_k} must be at least 1")
        if not 0.0 < top_p <= 1.0:
            raise CallError(f"top_p={top_p} must be above 0 and at most 1")
        self.seed, self.temperature, self.top_k, self.top_p = seed, temperature, top_k, top_p
        self._chance: WeakKeyDictionary[Sentence, torch.Generator] = WeakKeyDictionary()

    def __call__(self, logits: Float[Tensor, "N V"], sentences: Sequence[Sentence]) -> Int[Tensor, " N"]:
        uniform = torch.cat([torch.rand(1, generator=self._generator(one)) for one in sentences]).to(logits.device)
        return draw(logits / self.temperature, uniform, top_k=self.top_k, top_p=self.top_p)

    def _generator(self, sentence: Sentence) -> torch.Generator:
        if sentence not in self._chance:
            seed = (self.seed * APART + sentence.number) % 2**63
            self._chance[sentence] = torch.Generator().manual_seed(seed)
        return self._chance[sentence]


def sample(
    model: DecoderSteps[S],
    state: S,
    constraints: Constraints | Sequence[Constraints],
    *,
    seed: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
) -> list[list[Hypothesis]]:
    """One drawn hypothesis a sentence, for sentences that begin together."""
    pick = Sampler(seed=seed, temperature=temperature, top_k=top_k, top_p=top_p)
    return decode_all(model, TokenByToken(pick), state, constraints)


def draw(
    logits: Float[Tensor, "N V"], uniform: Float[Tensor, " N"], *, top_k: int | None = None, top_p: float = 1.0
) -> Int[Tensor, " N"]:
    """The token at which the cumulative probability of what top_k and top_p leave passes `uniform` (in [0, 1))."""
    names = None  # the token of each column, once they are sorted
    if top_k is not None:
        logits, names = logits.topk(min(top_k, logits.shape[1]), dim=1)
    elif top_p < 1.0:
        logits, names = logits.sort(dim=1, descending=True)
    mass = logits.softmax(1, dtype=torch.float32)
    cumulative = mass.cumsum(1)
    if top_p < 1.0:
        mass = mass.where(cumulative - mass < top_p, 0.0)  # the first token always stays
        cumulative = mass.cumsum(1)
    target = uniform.unsqueeze(1).to(mass.dtype) * cumulative[:, -1:]
    # The first column whose cumulative probability is above the target: one of probability 0 never is the first.
    column = torch.searchsorted(cumulative, target, right=True).clamp_(max=mass.shape[1] - 1)
    column = torch.minimum(column, (mass > 0).cumsum(1).argmax(1, keepdim=True))  # rounding at the very end
    return (column if names is None else names.gather(1, column)).squeeze(1)


# Text generation with a language model, token by token, several texts at once.
#
#     read the prompt;   then y_t ~ p(y | y_<t), drawn as `sample` draws, until the end token or a limit
#
# Texts share positions: all prompts are read up to the end of the shortest, and the longer ones are fed what they say
# anyway until they end. So there is no padding, and a text comes out the same alone and in company.
#
# A model looks back at `context` tokens. When they are full, the last half of them is read anew, and so on: every
# token is written with half a context before it at least, at the cost of one more reading every context/2 tokens.
#
# Repetition penalty: Keskar et al. 2019, section 4.1 (arXiv:1909.05858): logits of tokens that the text has already
# are divided by θ where they are positive, and multiplied by it where they are not.


@runtime_checkable
class Reads(Protocol):
    """The interface of a language model."""

    def start(self, rows: int, *, places: int) -> Any: ...

    def read(self, tokens: Int[Tensor, "N T"], state: Any) -> tuple[Float[Tensor, "N D"], Any]: ...

    def step(self, tokens: Int[Tensor, " N"], state: Any) -> tuple[Float[Tensor, "N D"], Any]: ...

    def logits(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]: ...


class SamplingState(NamedTuple):
    """How the next token is chosen; temperature 0 takes the most probable."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int = 0


class GeneratedText(NamedTuple):
    """A generated token of text `row`, and its log-probability under the model."""

    row: int
    token: int
    log_probability: float


def generate(
    model: Reads,
    prompts: Sequence[Sequence[int]],
    how: SamplingState,
    *,
    context: int,
    max_length: int,
    end: int | None,
    forbidden: Sequence[int] = (),
    device: torch.device,
    ended: Callable[[GeneratedText], bool] = lambda written: False,
) -> Iterator[GeneratedText]:
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
            written = GeneratedText(row, token, log_probability)
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
    how: SamplingState,
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
