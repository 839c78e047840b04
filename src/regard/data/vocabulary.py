"""What writes targets as ids, and what an input has to know of the output whose targets stand in its files."""

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from regard.data.special_ids import SpecialIds


@runtime_checkable
class Vocabulary(Protocol):
    """What writes targets as ids: a tokenizer, or the labels of a classifier."""

    @property
    def size(self) -> int: ...
    @property
    def specials(self) -> SpecialIds: ...
    def encode_batch(self, texts: list[str]) -> list[list[int]]: ...
    def to_json(self) -> str: ...


@runtime_checkable
class Targets(Protocol):
    """What an input has to know of the output whose targets stand in its files."""

    learns_from_all: ClassVar[bool]  # a choice of the texts has all words that matter, but not all classes

    @property
    def key(self) -> Any:
        """What the vocabulary of targets depends on beside their texts; None: on nothing, for it is there."""
        ...

    def learn(self, texts: Iterable[str]) -> Vocabulary:
        """The vocabulary, from the target texts of the training data; as it is, if it is there."""
        ...

    def load(self, written: str) -> Vocabulary:
        """The vocabulary as its `to_json` wrote it."""
        ...


def target_ids(vocabulary: Vocabulary, texts: list[str]) -> list[NDArray[np.int32]]:
    """What stands for each text, with the end token, if there is one."""
    end = [] if vocabulary.specials.end is None else [vocabulary.specials.end]
    return [np.array([*ids, *end], np.int32) for ids in vocabulary.encode_batch(texts)]
