"""Continuous batching: sequences join and leave a running batch between steps.

    newcomers ──→ first step on their own ──→ ┌───────────────┐
                                              │ step for all  │ ──→ done
                                              └───────↺───────┘

So no request waits for a running batch to end (continuous batching: Yu et al. 2022, "Orca", OSDI, section 4.1),
and the batch stays full while requests wait. A sentence of width W has W rows, its beams, which stay together. What
comes out is what each sentence alone would give: rows of a batch do not see each other.

Leaving and joining copy the states of all who stay, so sentences leave in groups, and join a large batch in groups.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import CallError
from regard.special_tokens import END, PAD, START
from regard.work import before_step

# The interface between decoding and models: a step takes and returns a state, and features become logits.

T = TypeVar("T")


@runtime_checkable
class DecoderState(Protocol):
    """What a decoder remembers between two steps, for N rows at once. A value: no step changes it."""

    @property
    def rows(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def joins(self) -> bool:
        """Whether rows that began at another step can join."""
        ...

    def select(self: T, rows: Int[Tensor, " M"]) -> T:
        """Keep, drop, repeat or reorder rows."""
        ...

    def join(self: T, other: T) -> T:
        """These rows, and after them those of another state of the same model."""
        ...


S = TypeVar("S", bound=DecoderState)


@runtime_checkable
class DecoderSteps(Protocol[S]):
    """Anything that can be decoded. `model.start(memory)` makes the first state."""

    def step(self, tokens: Int[Tensor, " N"], state: S) -> tuple[Float[Tensor, "N D"], S]: ...

    def logits(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]: ...


class Hypothesis(NamedTuple):
    """One output. `log_probability` is the model's, the end symbol included; n-best lists are ordered by `score`."""

    tokens: list[int]  # without <s> and </s>
    score: float
    log_probability: float


# Constraints on outputs: lengths, forced prefixes, symbols that are never an output.

NEVER = (PAD, START)


@dataclass(frozen=True)
class Constraints:
    """Rules for a sentence, all lengths counted without the end symbol; one that reaches `max_length` has to end there.

    A rule takes choices away; it does not change the probabilities of what is left, so that a hypothesis scores as the
    same tokens would by teacher forcing.
    """

    max_length: int
    min_length: int = 0
    prefix: Sequence[int] = ()  # what the output has to begin with
    forbidden: Sequence[int] = NEVER

    def __post_init__(self) -> None:
        if not 0 <= self.min_length <= self.max_length:
            raise CallError(f"min_length={self.min_length} must be between 0 and max_length={self.max_length}")
        if len(self.prefix) > self.max_length:
            raise CallError(f"the prefix has {len(self.prefix)} tokens: max_length={self.max_length} is too small")
        if any(token in (*NEVER, END, *self.forbidden) for token in self.prefix):
            raise CallError(f"the prefix contains a token that cannot be generated: {list(self.prefix)}")

    def only(self, step: int) -> int | None:
        """The one token that may come at this step; None: several may."""
        if step < len(self.prefix):
            return self.prefix[step]
        return END if step >= self.max_length else None


def constrain(logits: Float[Tensor, "N V"], rules: Sequence[tuple[Constraints, int]]) -> None:
    """Put −∞ over whatever a sentence may not say. Works in place.

    `rules`: the constraints of each sentence and its step; every sentence has as many rows as any other.
    """
    by_sentence = logits.view(len(rules), -1, logits.shape[1])
    same = all(one.forbidden == rules[0][0].forbidden for one, _ in rules)
    for part, (one, _) in [(logits, rules[0])] if same else zip(by_sentence, rules, strict=True):
        part[:, list(one.forbidden)] = -torch.inf
    if early := [number for number, (one, step) in enumerate(rules) if step < one.min_length]:
        by_sentence[early, :, END] = -torch.inf
    only = [one.only(step) for one, step in rules]
    if forced := [number for number, token in enumerate(only) if token is not None]:
        _keep(by_sentence, forced, torch.tensor([only[number] for number in forced], device=logits.device))


def _keep(logits: Float[Tensor, "S W V"], sentences: list[int], tokens: Int[Tensor, " F"]) -> None:
    """Of these sentences, these tokens only."""
    index = tokens[:, None, None].expand(-1, logits.shape[1], 1)
    some = logits[sentences]
    logits[sentences] = torch.full_like(some, -torch.inf).scatter(2, index, some.gather(2, index))


LEAVING_SHARE = 0.03  # of the batch: so many sentences that are done leave together
FEW = 16  # sentences, which are joined at any step; for each 16 of a larger batch, newcomers wait for one step more,
MOST_STEPS = 4  # and no longer than this


@dataclass(eq=False)
class Sentence:
    """An output in progress. The caller may set `cancelled`: it then leaves the batch without a result."""

    constraints: Constraints
    number: int = 0  # decides what it draws, where outputs are drawn at random
    step: int = 0  # steps that are taken
    done: bool = False
    cancelled: bool = False
    found: list[Hypothesis] = field(default_factory=list)  # best first, once it is done
    origins: list[list[int]] = field(default_factory=list)  # step by step: which beam each beam went on from,
    tokens: list[list[int]] = field(default_factory=list)  # and with which token

    def said(self, beam: int = 0) -> list[int]:
        """Return the tokens of a beam so far."""
        said = []
        for origins, tokens in zip(reversed(self.origins), reversed(self.tokens), strict=True):
            said.append(tokens[beam])
            beam = origins[beam]
        return said[::-1]


@dataclass(frozen=True)
class RunningBatch(Generic[S]):
    """Sentences, W rows of the state for each, the token that each row is given next, and its score."""

    state: S
    sentences: list[Sentence]
    tokens: Int[Tensor, " N"]
    scores: Float[Tensor, "S W"]


class Choice(NamedTuple):
    """The next tokens of each sentence, and the beams they extend (None: each its own)."""

    tokens: Int[Tensor, "S V"]
    scores: Float[Tensor, "S V"]
    origins: Int[Tensor, "S V"] | None = None


@runtime_checkable
class Search(Protocol):
    def choose(self, logits: Float[Tensor, "N V"], batch: RunningBatch) -> Choice:
        """Return the next tokens; mark sentences that end with this step as done, with their results."""
        ...


Arrivals = Callable[[], tuple[S, Sequence[Sentence]] | None]  # new sentences in their first state; None: none for now


def decode(model: DecoderSteps[S], search: Search, arrivals: Arrivals[S]) -> Iterator[list[Sentence]]:
    """Yield sentences when they are done. `arrivals` is called between steps where rows can join, and when the
    batch is empty; if it returns None then, decoding ends."""
    batch: RunningBatch[S] | None = None
    steps = 0  # since sentences could join
    while True:
        if batch is None or (batch.state.joins and steps >= min(MOST_STEPS, len(batch.sentences) // FEW)):
            steps = 0
            came = arrivals()
            if came is not None:
                new, done = _step(model, search, _start_state(*came))
                batch = new if batch is None else batch if new is None else _join_batches(batch, new)
                if done:
                    yield done
                continue
        if batch is None:
            return
        batch, done = _step(model, search, batch)
        steps += 1
        if done:
            yield done


def decode_all(
    model: DecoderSteps[S], search: Search, state: S, constraints: Constraints | Sequence[Constraints]
) -> list[list[Hypothesis]]:
    """Return the results of sentences that start together, in order; constraints for all, or for each."""
    rules = [constraints] * state.rows if isinstance(constraints, Constraints) else constraints
    sentences = [Sentence(one, number) for number, one in enumerate(rules)]
    waiting = [(state, sentences)] if sentences else []
    for _ in decode(model, search, lambda: waiting.pop() if waiting else None):
        pass
    return [sentence.found for sentence in sentences]


def _start_state(state: S, sentences: Sequence[Sentence]) -> RunningBatch[S]:
    tokens = torch.full((len(sentences),), START, device=state.device)
    return RunningBatch(state, list(sentences), tokens, torch.zeros(len(sentences), 1, device=state.device))


@torch.inference_mode()
def _step(
    model: DecoderSteps[S], search: Search, batch: RunningBatch[S]
) -> tuple[RunningBatch[S] | None, list[Sentence]]:
    """Return the batch after a step, without sentences that left, and the sentences that are done."""
    before_step(len(batch.tokens))
    running = [sentence for sentence in batch.sentences if not sentence.done]
    features, state = model.step(batch.tokens, batch.state)
    batch = RunningBatch(state, batch.sentences, batch.tokens, batch.scores)
    choice = search.choose(model.logits(features), batch)
    for sentence in running:
        sentence.step += 1
        sentence.done = sentence.done or sentence.cancelled
    done = [sentence for sentence in running if sentence.done]
    return _after(batch, choice), done


def _after(batch: RunningBatch[S], choice: Choice) -> RunningBatch[S] | None:
    """With the tokens that were chosen; without those that are done, if there are enough of them."""
    sentences, (tokens, scores, origins) = batch.sentences, choice
    staying = [number for number, sentence in enumerate(sentences) if not sentence.done]
    if not staying:
        return None
    leave = len(staying) <= (1.0 - LEAVING_SHARE) * len(sentences)
    if not leave and origins is None:
        return RunningBatch(batch.state, sentences, tokens.flatten(), scores)
    rows = torch.arange(len(sentences), device=tokens.device).unsqueeze(1) * batch.scores.shape[1]
    rows = rows.expand_as(tokens) if origins is None else rows + origins
    if leave:
        kept = torch.tensor(staying, device=tokens.device)
        sentences, tokens, scores, rows = [sentences[n] for n in staying], tokens[kept], scores[kept], rows[kept]
    return RunningBatch(batch.state.select(rows.flatten()), sentences, tokens.flatten(), scores)


@torch.inference_mode()
def _join_batches(batch: RunningBatch[S], new: RunningBatch[S]) -> RunningBatch[S]:
    return RunningBatch(
        batch.state.join(new.state),
        batch.sentences + new.sentences,
        torch.cat([batch.tokens, new.tokens]),
        torch.cat([batch.scores, new.scores]),
    )
