"""From memories to hypotheses: greedy, beam or by chance, with all that a recipe says of it. The same for any input."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.memory import Memory
from regard.decoding.beam import LengthPenalty, beam
from regard.decoding.constraints import Constraints
from regard.decoding.ctc import Prefixes
from regard.decoding.ctc_joint import Joint, JointState, LanguageModelVoice
from regard.decoding.greedy import greedy
from regard.decoding.protocol import Hypothesis, Steps
from regard.decoding.sample import sample
from regard.encoders.audio import memory_lengths
from regard.models.ctc import SpeechToText
from regard.models.seq2seq import Seq2Seq
from regard.outputs.text.settings import DecodingSettings
from regard.special_tokens import PAD, START, UNK

Ids = Sequence[int]
T = TypeVar("T")


class TellingSteps(Steps[Any]):
    """A model that tells each token which it is given: decoding feeds what it has chosen into the next step."""

    def __init__(self, model: Seq2Seq, tell: Callable[[int], None]) -> None:
        self._model, self._tell = model, tell

    def step(self, tokens: Int[Tensor, " N"], state: Any) -> tuple[Float[Tensor, "N D"], Any]:
        self._tell(int(tokens[0]))
        return self._model.step(tokens, state)

    def logits(self, features: Float[Tensor, "N D"]) -> Float[Tensor, "N V"]:
        return self._model.logits(features)


@torch.inference_mode()
def search(
    model: Seq2Seq,
    memory: Memory,
    how: DecodingSettings,
    prefix: Ids = (),
    *,
    ctc: float = 0.0,
    language: LanguageModelVoice | None = None,
    tell: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses for each row of a memory, best first.

    `ctc`: its weight in the search, for models that have it; `language`: a second opinion on texts. `tell` is told
    every token of one row that is decoded without a beam.
    """
    rows, copies = len(memory.vectors), how.n_best if how.sample else 1
    prefixes = [list(prefix)] * rows * copies if prefix else None
    says_unknown = how.unknown or how.replace_unknown or UNK in prefix
    never = (PAD, START) if says_unknown else (PAD, START, UNK)
    rules = Constraints(how.max_length, min_length=how.min_length, prefixes=prefixes, forbidden=never)
    steps: Steps[Any] = model if tell is None else TellingSteps(model, tell)
    if how.sample:
        drawn = sample(
            steps, model.start(memory, copies), rules,
            seed=how.seed, temperature=how.temperature, top_k=how.top_k or None, top_p=how.top_p,
        )  # fmt: skip
        groups = [[one for (one,) in drawn[i : i + copies]] for i in range(0, len(drawn), copies)]
        return [sorted(found, key=lambda hypothesis: -hypothesis.score) for found in groups]
    watch, ctc = how.coverage_penalty > 0, ctc if isinstance(model, SpeechToText) and model.ctc is not None else 0.0
    if how.beam == 1 and not (watch or ctc or language):
        return greedy(steps, model.start(memory), rules)
    options = {"size": how.beam, "n_best": how.n_best, "coverage": how.coverage_penalty}
    penalty = LengthPenalty(how.length_penalty)
    if not ctc and language is None:
        return beam(model, model.start(memory, watch=watch), rules, penalty=penalty, **options)
    state = JointState(
        decoder=model.start(memory, watch=watch),
        prefixes=Prefixes.start(model.ctc_scores(memory), memory_lengths(memory))
        if ctc and isinstance(model, SpeechToText)
        else None,
        language=None if language is None else language.start(rows),
    )
    return beam(Joint(model, ctc=ctc, language=language), state, rules, penalty=penalty, normalize=False, **options)


def in_groups(
    numbers: Sequence[int], lengths: Sequence[int], tokens: int, work: Callable[[list[int]], list[T]]
) -> Iterator[tuple[int, T]]:
    """`work` on groups of numbers of like length, each of about so many tokens; (number, result) as they come."""
    order = sorted(numbers, key=lambda number: -lengths[number])
    start = 0
    while start < len(order):  # the longest comes first, so its length is that of the padded group
        group = order[start : start + max(1, tokens // (lengths[order[start]] + 1))]
        yield from zip(group, work(group), strict=True)
        start += len(group)


def grouped(count: int, lengths: Sequence[int], tokens: int, work: Callable[[list[int]], list[T]]) -> list[T]:
    """The same for all numbers below `count`, in their order."""
    found = dict(in_groups(range(count), lengths, tokens, work))
    return [found[number] for number in range(count)]
