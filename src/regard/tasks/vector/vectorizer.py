"""Embedding of inputs, and explanation of the cosine of two vectors.

    cos(v(x), w)          w is the other vector: of another text, or of the text of a picture

The two inputs do not attend to each other, so each is explained separately with the other one fixed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from regard.data.batches import PlannedBatches, random_generator
from regard.data.examples import ExampleBatches
from regard.encoders.image import by_class_token
from regard.inputs.base import Input
from regard.inputs.media import MediaExamples
from regard.inputs.text.pairs import Frame
from regard.look.axis import Axis
from regard.look.case import ExplainTarget
from regard.look.placing import pooled_placement
from regard.tasks.batched import case_of, device_of, rows_of


@dataclass(frozen=True)
class Vectorizer:
    """A pooled encoder. `embed` maps batches of the input to vectors of `width`; `batch_tokens` limits a batch."""

    input: Input
    encoder: nn.Module
    pooling: nn.Module
    embed: Callable[[Any], Float[Tensor, "B D"]]
    width: int
    batch_tokens: int

    def vectors(self, items: Sequence[Any]) -> Float[Tensor, "N D"]:
        """Return the vectors in the order of the items, on the CPU."""
        found = rows_of(self.input, self.encoder, items, self.embed, self.batch_tokens)
        return torch.stack(found) if found else torch.empty(0, self.width)

    def unit(self, items: Sequence[Any]) -> Float[Tensor, "N D"]:
        """Return `vectors` scaled to length 1."""
        return normalize(self.vectors(items), dim=-1)

    def case(
        self, model: nn.Module, item: Any, other: Float[Tensor, " D"], axes: Mapping[str, Axis], **how: Any
    ) -> ExplainTarget:
        """Return the case of the cosine of an item with the other vector, which is the one row."""
        other = other.clone().to(device_of(model))  # a vector for inference is detached

        def cosine(source: Any) -> Float[Tensor, "N 1"]:
            return (normalize(self.embed(source).float(), dim=-1) @ other)[:, None]

        place = pooled_placement(by_class_token(self.encoder, self.pooling))
        how |= {"place": place, "at_once": self.batch_tokens}
        return case_of(self.input, model, self.encoder, item, cosine, axes, **how)


# Batches of pictures and captions for contrastive training.
#
# A batch has a picture once, with one of its captions; the next epoch uses the next caption, so that all are read
# equally often. Batches are random: captions of similar length are not grouped, because length also distinguishes
# captions.


@dataclass(frozen=True)
class MatchBatch:
    """Pictures (or their features), one caption of each as tokens, and whether caption j belongs to picture i."""

    source: Tensor
    text: Int[Tensor, "B S"]
    right: Bool[Tensor, "B B"]

    def to(self, device: torch.device | str) -> "MatchBatch":
        return MatchBatch(
            self.source.to(device, non_blocking=True),
            self.text.to(device, non_blocking=True),
            self.right.to(device, non_blocking=True),
        )


class MatchBatches(PlannedBatches[MatchBatch]):
    """Batches with every picture once in an epoch. Batch sizes follow the budget, and are about equal."""

    def __init__(self, examples: MediaExamples, frame: Frame, max_tokens: int, *, seed: int = 0) -> None:
        self._examples, self._frame = examples, frame
        self._captions = [examples.target(row) for row in range(len(examples))]
        _, first = np.unique(examples.numbers, return_index=True)  # pictures with a caption
        self._said = np.split(np.arange(len(examples)), first[1:])
        names: dict[bytes, int] = {}  # captions with equal text are the same
        self._texts = np.array([names.setdefault(ids.tobytes(), len(names)) for ids in self._captions], np.int64)
        regions, lengths = examples.lengths()
        longest = np.array([lengths[rows].max(initial=0) for rows in self._said], np.int32)
        super().__init__(regions[first], longest, max_tokens, seed=seed, ahead=True)
        self._size = max(2, max_tokens // int((regions[first] + longest).max(initial=1)))

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        chance = random_generator(self._seed, epoch)
        order = chance.permutation(len(self._source_lengths))
        return np.array_split(order, -(-len(order) // self._size)) if len(order) else []

    def batch(self, rows: NDArray[np.int64], epoch: int = 0) -> MatchBatch:
        if not len(rows):  # a process without a share gets one picture without any matching caption
            source = self._examples.source(np.zeros(1, np.int64), epoch)
            return MatchBatch(source, self._frame.read([[]]), torch.zeros(1, 1).bool())
        chosen = np.array([self._said[row][(epoch + row) % len(self._said[row])] for row in rows])
        text = self._frame.padded([self._captions[row] for row in chosen])
        return MatchBatch(self._examples.source(chosen, epoch), text, self._right(rows, chosen))

    def _right(self, rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> Bool[Tensor, "B B"]:
        """Return the matches, including captions of another picture in the batch that also belong to this one."""
        where: dict[int, list[int]] = {}
        for column, text in enumerate(self._texts[chosen].tolist()):
            where.setdefault(text, []).append(column)
        right = torch.zeros(len(rows), len(rows), dtype=torch.bool)
        for number, row in enumerate(rows):
            for text in self._texts[self._said[row]].tolist():
                right[number, where.get(text, [])] = True
        return right


class ContrastBatches(ExampleBatches):
    """Batches of pairs of texts with at least two pairs, if there are two, as contrast needs another pair. A single
    remaining pair joins another batch.
    """

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        plan = super()._plan(epoch)
        lone, others = [rows for rows in plan if len(rows) == 1], [rows for rows in plan if len(rows) > 1]
        if not others:
            return [np.concatenate(lone)] if lone else []
        for place, rows in enumerate(lone):
            others[place % len(others)] = np.concatenate([others[place % len(others)], rows])
        return others
