"""Vocabularies of targets, and what an input has to know of the output whose targets are in its files."""

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from regard.data.special_ids import SpecialIds


@runtime_checkable
class Vocabulary(Protocol):
    """An encoder of targets to ids: a tokenizer, or the labels of a classifier."""

    @property
    def size(self) -> int: ...
    @property
    def specials(self) -> SpecialIds: ...
    def encode_batch(self, texts: list[str]) -> list[list[int]]: ...
    def to_json(self) -> str: ...


@runtime_checkable
class Targets(Protocol):
    """What an input has to know of the output whose targets are in its files."""

    learns_from_all: ClassVar[bool]  # a sample of the texts has all words that matter, but not all classes

    @property
    def key(self) -> Any:
        """Return what the vocabulary of targets depends on besides their texts; None for an existing one."""
        ...

    def learn(self, texts: Iterable[str]) -> Vocabulary:
        """Return the vocabulary learned from the target texts of the training data, or the existing one."""
        ...

    def load(self, written: str) -> Vocabulary:
        """Return the vocabulary that its `to_json` wrote."""
        ...


def target_ids(vocabulary: Vocabulary, texts: list[str]) -> list[NDArray[np.int32]]:
    """Return the ids of each text, with the end token, if there is one."""
    end = [] if vocabulary.specials.end is None else [vocabulary.specials.end]
    return [np.array([*ids, *end], np.int32) for ids in vocabulary.encode_batch(texts)]
