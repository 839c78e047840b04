"""Decoding: hypotheses from memories by greedy search, beam search or sampling, by the settings of a recipe. Works
with any input.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.beam import Beam, LengthPenalty
from regard.decoding.constraints import NEVER, Constraints
from regard.decoding.coverage import CoveredState, Covering
from regard.decoding.ctc import Prefixes
from regard.decoding.ctc_joint import Joint, JointState, LanguageModelVoice
from regard.decoding.engine import Search, Sentence, decode
from regard.decoding.greedy import TokenByToken
from regard.decoding.protocol import Hypothesis, Steps
from regard.decoding.sample import Drawing
from regard.encoders.audio import memory_lengths
from regard.models.ctc import SpeechToText
from regard.models.seq2seq import Seq2Seq
from regard.outputs.text.seen import Ids
from regard.outputs.text.settings import DecodingSettings
from regard.special_tokens import UNK
from regard.work import before_step


class TellingSteps(Steps[Any]):
    """A model that reports each token to `tell`: decoding feeds the chosen token into the next step."""

    def __init__(self, model: Seq2Seq, tell: Callable[[int], None]) -> None:
        self._model, self._tell = model, tell

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
        language: LanguageModelVoice | None = None,
        tell: Callable[[int], None] | None = None,
    ) -> None:
        """Create the search. `ctc`: weight of CTC, if the model has it; `language`: a language model for fusion.
        `tell` is called with every token if one row is decoded without a beam.
        """
        self.model, self.how, self.ctc, self.language = model, how, ctc, language
        self.helped = not how.sample and (bool(ctc) or language is not None)
        self.copies = how.n_best if how.sample else 1  # sentences per input
        self.penalty = LengthPenalty(how.length_penalty)
        self.watch = how.coverage_penalty > 0 and not how.sample
        self.steps: Steps[Any] = model if tell is None else TellingSteps(model, tell)
        self.search: Search = TokenByToken()
        if how.sample:
            pick = Drawing(
                seed=how.seed, temperature=how.temperature, top_k=how.top_k or None, top_p=how.top_p
            )  # fmt: skip
            self.search = TokenByToken(pick)
        elif how.beam > 1 or self.watch or self.helped:
            self.search = Beam(how.beam, how.n_best, self.penalty, how.coverage_penalty, normalize=not self.helped)
            self.steps = Joint(model, ctc=ctc, language=language) if self.helped else self.steps
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


class Waiting(NamedTuple):
    """An item to decode: its key, its number (which seeds its samples), and its prefix."""

    key: Any
    item: Any
    number: int
    prefix: Ids = ()


@runtime_checkable
class Source(Protocol):
    def take(self, under_way: Collection[Any]) -> Sequence[Waiting]:
        """Return the items to start now, given the keys in progress; empty if there are none now, or at the end."""
        ...

    def is_cancelled(self, key: Any) -> bool: ...


def searched(
    searching: Searching, encode: Callable[[list[Any]], Memory], source: Source
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

    def take(self, under_way: Collection[int]) -> list[Waiting]:
        if len(under_way) > REFILL * self._batch or not self._left:
            return []
        longest = self._lengths[self._left[-1]] + 1
        some = [self._left.pop() for _ in range(min(len(self._left), max(1, self._tokens // longest)))]
        before_step(len(some) * longest)
        self._batch = len(some)
        return [Waiting(number, self._items[number], number, self._prefix) for number in some]

    def is_cancelled(self, key: int) -> bool:
        return False
