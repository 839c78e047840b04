"""From source ids to hypotheses: sentences of like length decoded together, results in the order of the inputs."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from regard.attention.memory import Memory
from regard.data.batches import pad_sentences
from regard.decoding.beam import LengthPenalty, beam
from regard.decoding.constraints import Constraints
from regard.decoding.greedy import greedy
from regard.decoding.protocol import Hypothesis
from regard.decoding.sample import sample
from regard.models.seq2seq import Seq2Seq
from regard.outputs.text.settings import DecodingSettings

Ids = Sequence[int]
T = TypeVar("T")

GROUP = 4096  # tokens that are forced through a model together


@torch.inference_mode()
def search(model: Seq2Seq, sources: Sequence[Ids], how: DecodingSettings, prefix: Ids = ()) -> list[list[Hypothesis]]:
    """The hypotheses of each source, best first. An input without any token has nothing to say: an empty output."""
    device = next(model.parameters()).device

    def decode(numbers: list[int]) -> list[list[Hypothesis]]:
        group = [sources[number] for number in numbers]
        return from_memory(model, model.encode(pad_sentences(group).to(device)), how, prefix)

    results = [[Hypothesis([], 0.0, 0.0)] for _ in sources]
    filled = [number for number, ids in enumerate(sources) if ids]
    for number, hypotheses in in_groups(filled, [len(ids) for ids in sources], how.batch_tokens, decode):
        results[number] = hypotheses
    return results


@torch.inference_mode()
def from_memory(model: Seq2Seq, memory: Memory, how: DecodingSettings, prefix: Ids = ()) -> list[list[Hypothesis]]:
    """The hypotheses for each row of a memory, best first: the same for texts, pictures and sound."""
    rows = len(memory.vectors)
    rules = Constraints(how.max_length, min_length=how.min_length, prefixes=[prefix] * rows if prefix else None)
    if how.sample:
        copies = how.n_best
        rules.prefixes = [prefix] * rows * copies if prefix else None
        drawn = sample(
            model, model.start(memory, copies), rules,
            seed=how.seed, temperature=how.temperature, top_k=how.top_k or None, top_p=how.top_p,
        )  # fmt: skip
        groups = [[one for (one,) in drawn[i : i + copies]] for i in range(0, len(drawn), copies)]
        return [sorted(found, key=lambda hypothesis: -hypothesis.score) for found in groups]
    if how.beam == 1 and how.coverage_penalty == 0:
        return greedy(model, model.start(memory), rules)
    return beam(
        model, model.start(memory, watch=how.coverage_penalty > 0), rules,
        size=how.beam, n_best=how.n_best, penalty=LengthPenalty(how.length_penalty), coverage=how.coverage_penalty,
    )  # fmt: skip


@torch.inference_mode()
def log_probabilities(model: Seq2Seq, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[float]:
    """log p(target | source) of each pair, the end symbol included."""
    device = next(model.parameters()).device

    def score(numbers: list[int]) -> list[float]:
        source = to_tensor([sources[number] for number in numbers], device)
        target = to_tensor([targets[number] for number in numbers], device)
        return model.score(source, target).sum(1).tolist()

    lengths = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    found = dict(in_groups(range(len(sources)), lengths, GROUP, score))
    return [found[number] for number in range(len(sources))]


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


def to_tensor(sentences: Sequence[Ids], device: torch.device) -> Tensor:
    return pad_sentences(sentences).to(device)
