"""Vocabularies of targets, and what an input has to know of the output whose targets are in its files."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from regard.special_tokens import END, PAD, SPECIAL_TOKENS, START, UNK

# Ids of special tokens in a vocabulary: padding, unknown, start, end, mask.
#
# In regard they are the first four of every vocabulary. A tokenizer.json of another tool defines them in three
# places: the list of added tokens (which are special), the model (the unknown token), and the template around a text,
# such as `[CLS] $A [SEP]`. Ids that the template lacks are found by their usual names.

USUAL = {
    "pad": ("[PAD]", "<pad>", "<|pad|>"),
    "unk": ("[UNK]", "<unk>"),
    "start": ("[CLS]", "<s>", "<|im_start|>", "<|begin_of_text|>", "<|endoftext|>"),
    "end": ("[SEP]", "</s>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>"),
    "mask": ("[MASK]", "<mask>"),
}


@dataclass(frozen=True)
class SpecialIds:
    """Special ids; None for those that a vocabulary lacks. BERT's [CLS] is `start`, its [SEP] is `end`."""

    pad: int | None
    unk: int | None
    start: int | None
    end: int | None
    mask: int | None = None
    names: Mapping[int | None, str] = field(default_factory=dict)  # of all special tokens, also of those without a role


OURS = SpecialIds(PAD, UNK, START, END, names=dict(enumerate(SPECIAL_TOKENS)))


def special_ids_of(inner: Tokenizer) -> SpecialIds:
    if [inner.id_to_token(index) for index in range(len(SPECIAL_TOKENS))] == SPECIAL_TOKENS:
        return OURS
    spec = json.loads(inner.to_str())
    names = {token["id"]: token["content"] for token in spec["added_tokens"] if token["special"]}
    start, end = _frame(spec.get("post_processor"))

    def named(role: str, told: str | None = None) -> int | None:
        known = (inner.token_to_id(name) for name in ((told,) if told else USUAL[role]))
        return next((index for index in known if index is not None), None)

    found = {
        "pad": named("pad"),
        "unk": named("unk", _unknown_id(spec["model"])),
        "start": named("start", start),
        "end": named("end", end),
        "mask": named("mask"),
    }
    names |= {index: str(inner.id_to_token(index)) for index in found.values() if index is not None}
    return SpecialIds(**found, names=names)


def _unknown_id(model: Mapping[str, Any]) -> str | None:
    if model.get("unk_id") is not None:  # unigram
        return model["vocab"][model["unk_id"]][0]
    return model.get("unk_token")


def _frame(processor: Mapping[str, Any] | None) -> tuple[str | None, str | None]:
    """Return the tokens before and after a single text."""
    if processor is None:
        return None, None
    if processor["type"] == "Sequence":
        frames = [_frame(part) for part in processor["processors"]]
        return next((frame for frame in frames if frame != (None, None)), (None, None))
    if processor["type"] in ("BertProcessing", "RobertaProcessing"):
        return processor["cls"][0], processor["sep"][0]
    if processor["type"] != "TemplateProcessing":
        return None, None
    single = processor["single"]
    before, after = (single[place].get("SpecialToken", {}).get("id") for place in (0, -1))
    return before, after


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
