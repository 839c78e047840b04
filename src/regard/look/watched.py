"""What was seen of a model that was watched: calls of attention, joined into tables.

A pass is one call of the outermost module. Steps of decoding (`generate`) are passes that go on where the one before
ended: they are joined along Q, with zero for keys that were not there yet, or not any more (a sliding window keeps the
last ones). A pass whose queries are all of its keys begins anew, and the last text that was read is the one that is
shown. A module that works several times in one pass (layers that share their weights) is a layer each time:
`attention`, `attention#2`, ...

    encoder   vectors look at each other, both ways
    decoder   vectors look back: no weight on a later key, or keys of steps before
    cross     the keys come from elsewhere: the name says so (self, cross, encoder_attn), or what the module was given
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import CallError
from regard.look.from_arrays import Labels
from regard.look.records import AttentionRecord, Kind

CROSS = re.compile(r"cross|encoder_attn|enc_?dec", re.IGNORECASE)
SELF = re.compile(r"self", re.IGNORECASE)
MOST_NAMES = 8  # in an error


@dataclass
class Call:
    """One attention at work. `size`: Q, K. `rows`: the queries that `weights` (B H R K) has; None: not asked for."""

    name: str
    size: tuple[int, int]
    number: int  # of the pass
    rows: Sequence[int]
    weights: Tensor | None = None
    looks_elsewhere: bool | None = None

    @property
    def cross(self) -> bool:
        if CROSS.search(self.name):
            return True
        return bool(self.looks_elsewhere) and not SELF.search(self.name)

    @property
    def whole(self) -> bool:
        """Does it begin a text? A step that goes on has keys of the steps before."""
        return self.size[0] == self.size[1]


class Joined(NamedTuple):
    """The steps of one attention: B H R K, with the place of each row among Q queries."""

    name: str
    kind: Kind
    layer: int
    weights: Tensor
    rows: list[int]
    queries: int
    steps: int

    @property
    def size(self) -> tuple[int, int]:
        return self.queries, self.weights.shape[-1]


class Watched:
    """`only`, `rows`: what was asked for. `calls`: all that ran. `unseen`: modules that are called attention, and in
    which none was seen."""

    def __init__(self, model: str, only: Sequence[str] | None, rows: Sequence[int] | None) -> None:
        self.model, self.only, self.rows = model, only, rows
        self.calls: list[Call] = []
        self.unseen: list[str] = []

    def wants(self, name: str) -> bool:
        return self.only is None or matches(name, self.only)

    @property
    def names(self) -> list[str]:
        """Every attention that was watched, in the order in which they first ran."""
        return list(self.tables())

    def __getitem__(self, name: str) -> Tensor:
        """The weights of one attention, B H Q K, of the last text that the model read."""
        tables = self.tables()
        if name not in tables:
            raise KeyError(f"no attention named {name!r} was watched; there are: {', '.join(tables)}")
        return tables[name].weights

    def record(
        self,
        rows: Labels | None = None,
        columns: Labels | None = None,
        *,
        example: int = 0,
        only: str | Sequence[str] | None = None,
        kinds: Mapping[str, Kind] | None = None,
        input: str = "",
        output: str = "",
    ) -> AttentionRecord:
        """What pictures are made of, for one example of the batch.

        rows      the tokens that look: all that were read, or all but the padding at their end. Left out, they are
                  numbered. Where a decoder looks at an encoder, they are the decoder's
        columns   the tokens of the encoder, where there are two sides
        only      attention in the modules of these names, with * for anything
        kinds     what an attention is for, by its name, where it was taken for something else: {"*.mix": "cross"}

        What does not fit the tokens is left out: those of a text show the text's side of CLIP, a grid the image's.
        """
        from regard.look.watched_record import record_of

        return record_of(
            self, rows, columns, example=example, only=only, kinds=kinds or {}, input=input, output=output
        )  # fmt: skip

    def tables(self) -> dict[str, Joined]:
        """The last text that each attention read."""
        texts: dict[str, list[Call]] = {}
        began: dict[int, bool] = {}  # pass → whether the self-attention that ran last in it began a text
        for call in self.calls:
            name, number = call.name, 1
            while not call.cross and call.whole and name in texts and texts[name][-1].number == call.number:
                number += 1
                name = f"{call.name}#{number}"
            new_pass = name not in texts or texts[name][-1].number != call.number
            if not call.cross:
                began[call.number] = call.whole
            begins = call.whole if not call.cross else new_pass and began.get(call.number, True)
            texts[name] = [call] if begins or name not in texts else [*texts[name], call]
        layers = _layers({name: calls[0].cross for name, calls in texts.items()})
        found = {
            name: _joined(name, layers[name], calls)
            for name, calls in texts.items()
            if any(call.weights is not None for call in calls)
        }
        if not found:
            raise CallError(self._nothing())
        return found

    def _nothing(self) -> str:
        ran = list(dict.fromkeys(call.name for call in self.calls))
        if ran and self.only is not None and not any(self.wants(name) for name in ran):
            return f"nothing was watched: only={list(self.only)} is none of the attentions that ran: {listed(ran)}"
        if ran:
            longest = max(call.size[0] for call in self.calls)
            return f"nothing was watched: rows={list(self.rows or ())} are in no pass; the longest had {longest} rows"
        if self.unseen:
            return (
                f"nothing was watched: {listed(self.unseen)} ran, but not by scaled_dot_product_attention, a softmax "
                "or nn.MultiheadAttention; models of transformers have attn_implementation='sdpa' and 'eager'"
            )
        return (
            "nothing was watched: no attention of this model ran inside `with watching(model)`. The model must be the "
            "one that is called, in the same thread"
        )


def matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def family(name: str) -> str:
    """What the layers of one stack have in common: `encoder.layer.3.attention` → `encoder.layer.*.attention`."""
    return re.sub(r"\d+", "*", name.partition("#")[0])


def _layers(cross: Mapping[str, bool]) -> dict[str, int]:
    """The number of each attention among those of its stack, watched or not."""
    count: dict[tuple[str, bool], int] = {}
    found = {}
    for name, elsewhere in cross.items():
        stack = family(name), elsewhere
        found[name] = count[stack] = count.get(stack, -1) + 1
    return found


def _joined(name: str, layer: int, calls: Sequence[Call]) -> Joined:
    cross, queries = calls[0].cross, 0
    parts: list[tuple[int, Tensor]] = []
    rows: list[int] = []
    for call in calls:
        begin = 0 if cross or len(calls) == 1 else max(0, queries + call.size[0] - call.size[1])  # a window: the last
        if call.weights is not None:
            parts.append((begin, call.weights))
            rows += [queries + row for row in call.rows]
        queries += call.size[0]
    if len({weights.shape[:2] for _, weights in parts}) > 1:
        raise CallError(f"{name} ran on batches of different sizes, which are no steps of one text: watch them apart")
    width = max(begin + weights.shape[-1] for begin, weights in parts)
    weights = torch.cat([F.pad(x, (begin, width - begin - x.shape[-1])) for begin, x in parts], dim=-2)
    if not cross and width > queries and not weights[..., queries:].any():  # room that a cache has kept free
        weights = weights[..., :queries]
    kind: Kind = "cross" if cross else "decoder" if _looks_back(name, weights, rows, queries, calls) else "encoder"
    return Joined(name, kind, layer, weights, rows, queries, len(calls))


def _looks_back(name: str, weights: Tensor, rows: Sequence[int], queries: int, calls: Sequence[Call]) -> bool:
    if len(calls) > 1 or weights.shape[-1] > queries:
        return True
    if queries == 1:
        return "decoder" in name
    keys = torch.arange(weights.shape[-1], device=weights.device)
    later = keys > torch.tensor(rows, device=weights.device).unsqueeze(-1)
    return bool(later.any()) and not bool(weights[..., later].any())
