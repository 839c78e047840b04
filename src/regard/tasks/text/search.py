"""Decoding: hypotheses from memories by greedy search, beam search or sampling, by the settings of a recipe. Works
with any input.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.memory import Memory
from regard.auxiliary_models import load_auxiliary_model
from regard.data.tokenizer import Tokenizer
from regard.encoders.audio import memory_lengths
from regard.generation.beam import Beam, LengthPenalty
from regard.generation.coverage import CoveredState, Covering
from regard.generation.ctc import JointScores, JointState, LanguageModelFusion, Prefixes
from regard.generation.engine import NEVER, Constraints, DecoderSteps, Hypothesis, Search, Sentence, decode
from regard.generation.sampling import Sampler, TokenByToken
from regard.models.language_model import LanguageModel
from regard.models.seq2seq import Seq2Seq, SpeechToText
from regard.special_tokens import UNK
from regard.tasks.text.settings import DecodingSettings
from regard.tasks.text.writing import Ids, token_places
from regard.work import QueuedInput, Take, before_step


class StreamingDecoder(DecoderSteps[Any]):
    """A model that reports each token to `tell`: decoding feeds the chosen token into the next step."""

    def __init__(self, model: Seq2Seq, on_step: Callable[[int], None]) -> None:
        self._model, self._tell = model, on_step

    def step(self, tokens: Int[Tensor, " N"], state: Any) -> tuple[Float[Tensor, "N D"], Any]:
        self._tell(int(tokens[0]))
        return self._model.step(tokens, state)

    def logits(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        return self._model.logits(features)


class Searching:
    """A configured search: the model, the search, and the prefix of sentences."""

    def __init__(
        self,
        model: Seq2Seq,
        how: DecodingSettings,
        *,
        ctc: float = 0.0,
        language: LanguageModelFusion | None = None,
        on_step: Callable[[int], None] | None = None,
    ) -> None:
        """Create the search. `ctc`: weight of CTC, if the model has it; `language`: a language model for fusion.
        `on_step` is called with every token if one row is decoded without a beam.
        """
        self.model, self.how, self.ctc, self.language = model, how, ctc, language
        self.helped = not how.sample and (bool(ctc) or language is not None)
        self.copies = how.n_best if how.sample else 1  # sentences per input
        self.penalty = LengthPenalty(how.length_penalty)
        self.watch = how.coverage_penalty > 0 and not how.sample
        self.steps: DecoderSteps[Any] = model if on_step is None else StreamingDecoder(model, on_step)
        self.search: Search = TokenByToken()
        if how.sample:
            pick = Sampler(
                seed=how.seed, temperature=how.temperature, top_k=how.top_k or None, top_p=how.top_p
            )  # fmt: skip
            self.search = TokenByToken(pick)
        elif how.beam > 1 or self.watch or self.helped:
            self.search = Beam(how.beam, how.n_best, self.penalty, how.coverage_penalty, normalize=not self.helped)
            self.steps = JointScores(model, ctc=ctc, language=language) if self.helped else self.steps
            self.steps = Covering(self.steps) if self.watch else self.steps

    def sentences(self, number: int, prefix: Ids = ()) -> list[Sentence]:
        """Return the sentences of input `number`; several, if several outputs are sampled."""
        how = self.how
        never = NEVER if how.unknown or how.replace_unknown or UNK in prefix else (*NEVER, UNK)
        rules = Constraints(how.max_length, how.min_length, tuple(prefix), never)
        return [Sentence(rules, number * self.copies + copy) for copy in range(self.copies)]

    @torch.inference_mode()
    def start(self, memory: Memory) -> Any:
        """Return the state of these sentences before their first step."""
        if self.copies > 1:
            rows = torch.arange(len(memory.vectors), device=memory.vectors.device)
            memory = memory.select(rows.repeat_interleave(self.copies))
        state = self.model.start(memory, watch=self.watch)
        if self.helped:
            state = JointState(
                decoder=state,
                prefixes=Prefixes.start(self.model.ctc_scores(memory), memory_lengths(memory))
                if self.ctc and isinstance(self.model, SpeechToText)
                else None,
                language=None if self.language is None else self.language.start(len(memory.vectors)),
            )
        return CoveredState(state) if self.watch else state

    def found(self, sentences: Sequence[Sentence]) -> list[Hypothesis]:
        """Return the hypotheses of one input, best first by their score, log p / length ** how.length_penalty."""
        if isinstance(self.search, Beam):
            return sentences[0].found
        found = [one for sentence in sentences for one in sentence.found]
        ranked = [one._replace(score=one.log_probability / self.penalty(len(one.tokens) + 1)) for one in found]
        return sorted(ranked, key=lambda one: -one.score)


class DecodeRequest(NamedTuple):
    """An item to decode: its key, its number (which seeds its samples), and its prefix."""

    key: Any
    item: Any
    number: int
    prefix: Ids = ()


@runtime_checkable
class EncodedSource(Protocol):
    def take(self, under_way: Collection[Any]) -> Sequence[DecodeRequest]:
        """Return the items to start now, given the keys in progress; empty if there are none now, or at the end."""
        ...

    def is_cancelled(self, key: Any) -> bool: ...


def search_groups(
    searching: Searching, encode: Callable[[list[Any]], Memory], source: EncodedSource
) -> Iterator[tuple[Any, list[Hypothesis]]]:
    """Yield (key, hypotheses) of each item when it is finished."""
    under_way: dict[Any, list[Sentence]] = {}

    def arrivals() -> tuple[Any, list[Sentence]] | None:
        for key, sentences in under_way.items():
            for sentence in sentences:
                sentence.cancelled = source.is_cancelled(key)
        came = source.take(under_way.keys())
        if not came:
            return None
        memory = encode([waiting.item for waiting in came])
        begun = {waiting.key: searching.sentences(waiting.number, waiting.prefix) for waiting in came}
        under_way.update(begun)
        return searching.start(memory), [sentence for sentences in begun.values() for sentence in sentences]

    for _ in decode(searching.steps, searching.search, arrivals):
        done = [key for key, sentences in under_way.items() if all(sentence.done for sentence in sentences)]
        for key in done:
            sentences = under_way.pop(key)
            if not any(sentence.cancelled for sentence in sentences):
                yield key, searching.found(sentences)


REFILL = 0.25  # of a batch: new sentences join when no more than this share is left


class Sorted:
    """A list of items in batches of about `tokens` source tokens, longest first to reduce padding."""

    def __init__(self, items: Sequence[Any], lengths: Sequence[int], tokens: int, prefix: Ids) -> None:
        self._items, self._lengths, self._tokens, self._prefix = items, lengths, tokens, prefix
        self._left = sorted(
            (n for n, length in enumerate(lengths) if length), key=lambda n: lengths[n]
        )  # the last item is next
        self._batch = 0  # sentences of the last batch

    def take(self, under_way: Collection[int]) -> list[DecodeRequest]:
        if len(under_way) > REFILL * self._batch or not self._left:
            return []
        longest = self._lengths[self._left[-1]] + 1
        some = [self._left.pop() for _ in range(min(len(self._left), max(1, self._tokens // longest)))]
        before_step(len(some) * longest)
        self._batch = len(some)
        return [DecodeRequest(number, self._items[number], number, self._prefix) for number in some]

    def is_cancelled(self, key: int) -> bool:
        return False


# Shallow fusion of a recognizer with a language model (`generation/ctc.py`).

FIELD = "decoding.language_model"


def language_model_voice(folder: str, weight: float, tokenizer: Tokenizer, device: torch.device) -> LanguageModelFusion:
    """Load a run of the job `generate`. Its vocabulary must contain every token of `tokenizer`, in any order."""
    job, model = load_auxiliary_model(FIELD, folder, "generate", device)
    assert isinstance(model, LanguageModel)
    places = token_places(f"{FIELD}={folder}", job.input.tokenizer, tokenizer)
    return LanguageModelFusion(model, model.start, weight, torch.tensor(places, device=device))


# Decoding of inputs that arrive while others are decoded: their items join the current batch.


@dataclass(eq=False)
class PendingInput:
    """An input that was taken, its items, and the hypotheses of the finished items."""

    arrived: QueuedInput
    items: Sequence[Any]
    found: dict[int, list[Hypothesis]] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        return len(self.found) == len(self.items)


class Place(NamedTuple):
    """The position of an item in its input."""

    begun: PendingInput
    number: int
    length: int


class ArrivingItems:
    """A `Source` for `searched`, limited to about `tokens` source tokens at a time.

    An error in one input becomes the answer for that input only.
    """

    def __init__(
        self,
        take: Take,
        read: Callable[[Any], Sequence[Any]],
        length: Callable[[Any], int],
        prefix: Ids,
        tokens: int,
    ) -> None:
        """Create the source. `read` returns the items of an input."""
        self._take, self._read, self._length, self._prefix, self._tokens = take, read, length, prefix, tokens
        self._waiting: deque[DecodeRequest] = deque()
        self._ready: list[tuple[QueuedInput, PendingInput | Exception]] = []

    def take(self, under_way: Collection[Place]) -> list[DecodeRequest]:
        while not self._waiting and (came := self._take()):
            for arrived in came:
                self._waiting.extend(self._start(arrived))
        room = self._tokens - sum(place.length + 1 for place in under_way)
        some: list[DecodeRequest] = []
        while self._waiting:
            longest = max(self._waiting[0].key.length, *(one.key.length for one in some), 0)
            if (len(some) + 1) * (longest + 1) > room and (some or under_way):
                break
            some.append(self._waiting.popleft())
        if some:
            before_step(sum(one.key.length + 1 for one in some))
        return some

    def _start(self, queued: QueuedInput) -> Iterator[DecodeRequest]:
        try:
            begun = PendingInput(queued, self._read(queued.one))
            lengths = [self._length(item) for item in begun.items]
        except Exception as error:
            self._ready.append((queued, error))
            return
        for number, (item, length) in enumerate(zip(begun.items, lengths, strict=True)):
            if length:  # the prefix applies to the first window of a recording only
                prefix = self._prefix if number == 0 else ()
                yield DecodeRequest(Place(begun, number, length), item, queued.number, prefix)
            else:
                self.found(Place(begun, number, length), [Hypothesis([], 0.0, 0.0)])

    def found(self, place: Place, hypotheses: list[Hypothesis]) -> None:
        place.begun.found[place.number] = hypotheses
        if place.begun.done:
            self._ready.append((place.begun.arrived, place.begun))

    def ready(self) -> Iterator[tuple[QueuedInput, PendingInput | Exception]]:
        """Yield inputs whose items have all finished since the last call, and inputs that could not be read."""
        while self._ready:
            yield self._ready.pop(0)

    def is_cancelled(self, key: Place) -> bool:
        return key.begun.arrived.cancelled
