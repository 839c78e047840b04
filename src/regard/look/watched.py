"""Results of watching a model: attention calls, joined into tables.

A pass is one call of the outermost module. Decoding steps (`generate`) are passes that continue the one before. They
are joined along Q, with zero for keys that do not exist yet or have left a sliding window. A pass in which all keys are
queries starts a new text; the last text is shown. A module that runs several times in one pass (shared weights) counts
as one layer each time: `attention`, `attention#2`, ...

    encoder   bidirectional self-attention
    decoder   causal self-attention: no weight on later keys, or keys of earlier steps
    cross     keys from another sequence, by the name (self, cross, encoder_attn) or by the inputs of the module
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
    """One attention call. `size`: Q, K. `rows`: the queries in `weights` (B H R K); None: not requested."""

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
        """Whether it starts a text. Continuation steps have keys of earlier steps."""
        return self.size[0] == self.size[1]


class Joined(NamedTuple):
    """The joined steps of one attention: B H R K, with the position of each row among Q queries."""

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
    """Attention of a watched model.

    `only`, `rows`: the request. `calls`: all attention calls. `unseen`: modules named attention without calls."""

    def __init__(self, model: str, only: Sequence[str] | None, rows: Sequence[int] | None) -> None:
        self.model, self.only, self.rows = model, only, rows
        self.calls: list[Call] = []
        self.unseen: list[str] = []

    def wants(self, name: str) -> bool:
        return self.only is None or matches(name, self.only)

    @property
    def names(self) -> list[str]:
        """Names of all watched attentions, in the order of their first call."""
        return list(self.tables())

    def __getitem__(self, name: str) -> Tensor:
        """Return the weights of one attention, B H Q K, for the last text."""
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
        """Return an attention record for one example of the batch.

        rows      query tokens, with or without the padding at the end; by default numbers. For an encoder-decoder, the
                  tokens of the decoder
        columns   the tokens of the encoder, for an encoder-decoder
        only      attention in modules of these names, with * for anything
        kinds     corrected kind of an attention, by name: {"*.mix": "cross"}

        Tables that do not fit the tokens are dropped: for CLIP, tokens select the text side, a grid the image side.
        """
        from regard.look.watched_record import record_of

        return record_of(
            self, rows, columns, example=example, only=only, kinds=kinds or {}, input=input, output=output
        )  # fmt: skip

    def tables(self) -> dict[str, Joined]:
        """Return the table of each attention for the last text."""
        texts: dict[str, list[Call]] = {}
        began: dict[int, bool] = {}  # pass → whether its last self-attention started a text
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
    """Return the common name of a stack of layers: `encoder.layer.3.attention` → `encoder.layer.*.attention`."""
    return re.sub(r"\d+", "*", name.partition("#")[0])


def _layers(cross: Mapping[str, bool]) -> dict[str, int]:
    """Return the number of each attention in its stack, watched or not."""
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
        raise CallError(f"{name} calls had different batch sizes; record them in separate `watching` blocks")
    width = max(begin + weights.shape[-1] for begin, weights in parts)
    weights = torch.cat([F.pad(x, (begin, width - begin - x.shape[-1])) for begin, x in parts], dim=-2)
    if not cross and width > queries and not weights[..., queries:].any():  # unused space of a static cache
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
