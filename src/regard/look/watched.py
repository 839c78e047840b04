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
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.errors import CallError
from regard.look.axis import Axis, axis
from regard.look.files import Labels, axis_of
from regard.look.records import KINDS, ORDER, Attention, AttentionRecord, Kind

CROSS = re.compile(r"cross|encoder_attn|enc_?dec", re.IGNORECASE)
SELF = re.compile(r"self", re.IGNORECASE)
MOST_NAMES = 8  # in an error


@dataclass
class WatchedCall:
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


class JoinedCalls(NamedTuple):
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
        self.calls: list[WatchedCall] = []
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

        return record_of(
            self, rows, columns, example=example, only=only, kinds=kinds or {}, input=input, output=output
        )  # fmt: skip

    def tables(self) -> dict[str, JoinedCalls]:
        """Return the table of each attention for the last text."""
        texts: dict[str, list[WatchedCall]] = {}
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
            name: _join_calls(name, layers[name], calls)
            for name, calls in texts.items()
            if any(call.weights is not None for call in calls)
        }
        if not found:
            raise CallError(self._nothing())
        return found

    def _nothing(self) -> str:
        ran = list(dict.fromkeys(call.name for call in self.calls))
        if ran and self.only is not None and not any(self.wants(name) for name in ran):
            return f"nothing was watched: only={list(self.only)} is none of the attentions that ran: {list_names(ran)}"
        if ran:
            longest = max(call.size[0] for call in self.calls)
            return f"nothing was watched: rows={list(self.rows or ())} are in no pass; the longest had {longest} rows"
        if self.unseen:
            return (
                f"nothing was watched: {list_names(self.unseen)} ran, but not by scaled_dot_product_attention, a "
                "softmax or nn.MultiheadAttention; models of transformers have attn_implementation='sdpa' and 'eager'"
            )
        return (
            "nothing was watched: no attention of this model ran inside `with watching(model)`. The model must be the "
            "one that is called, in the same thread"
        )


def matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def list_names(names: Sequence[str]) -> str:
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


def _join_calls(name: str, layer: int, calls: Sequence[WatchedCall]) -> JoinedCalls:
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
    return JoinedCalls(name, kind, layer, weights, rows, queries, len(calls))


def _looks_back(name: str, weights: Tensor, rows: Sequence[int], queries: int, calls: Sequence[WatchedCall]) -> bool:
    if len(calls) > 1 or weights.shape[-1] > queries:
        return True
    if queries == 1:
        return "decoder" in name
    keys = torch.arange(weights.shape[-1], device=weights.device)
    later = keys > torch.tensor(rows, device=weights.device).unsqueeze(-1)
    return bool(later.any()) and not bool(weights[..., later].any())


# Convert the tables of a watched model to a record, with the given tokens.


def record_of(
    watched: Watched,
    rows: Labels | None,
    columns: Labels | None,
    *,
    example: int,
    only: str | Sequence[str] | None,
    kinds: Mapping[str, Kind],
    input: str,
    output: str,
) -> AttentionRecord:
    """Return a record; see `Watched.record`."""
    tables = [_of_kind(table, kinds) for table in _choose(watched, only)]
    _require_example(tables, example)
    source = None if columns is None else axis_of("columns", columns)
    if rows is None:
        target, source = _number_tokens(tables, source)
    else:
        target = axis_of("rows", rows)
    axes = {"source": target} if source is None else {"target": target, "source": source}
    shown: dict[str, Axis] = {}
    found: list[Attention] = []
    for table in tables:
        sides = _sides(table, "source" if source is None else "target", source is not None)
        if sides is None:
            continue
        size = len(axes[sides[0]]), len(axes[sides[1]])
        if not _fits(table, example, size):
            continue
        places = [place for place in table.rows if place < size[0]]
        weights = table.weights[example, :, : len(places), : size[1]].float().cpu().numpy()
        shown |= {side: axes[side] for side in sides}
        looking = sides[0]
        if watched.rows is not None:  # a separate axis, as these are not all rows
            looking = f"{looking} rows"
            shown[looking] = axes[sides[0]].taken(places)
        found.append(Attention(table.name, table.kind, table.layer, np.ascontiguousarray(weights), looking, sides[1]))
    if not found or axes.keys() - shown.keys():
        raise CallError(_misfit(tables, axes))
    used = {side for one in found for side in (one.rows, one.columns)}
    ordered = sorted(_one_after_another(found), key=lambda one: ORDER.index(one.kind))
    return AttentionRecord(
        tuple(ordered), {side: axis for side, axis in shown.items() if side in used},
        model=watched.model, input=input, output=output,
    )  # fmt: skip


def _choose(watched: Watched, only: str | Sequence[str] | None) -> list[JoinedCalls]:
    tables = watched.tables()
    if only is None:
        return list(tables.values())
    found = [table for name, table in tables.items() if matches(name, [only] if isinstance(only, str) else only)]
    if not found:
        raise CallError(f"only={only!r} is none of the attentions that were watched: {list_names(list(tables))}")
    return found


def _of_kind(table: JoinedCalls, kinds: Mapping[str, Kind]) -> JoinedCalls:
    for pattern, kind in kinds.items():
        if kind not in KINDS:
            raise CallError(f"kinds={{{pattern!r}: {kind!r}}} must be one of {', '.join(KINDS)}")
        if matches(table.name, [pattern]):
            return table._replace(kind=kind)
    return table


def _require_example(tables: Sequence[JoinedCalls], example: int) -> None:
    batch = {len(table.weights): table for table in tables}
    if len(batch) > 1 and any(table.steps > 1 for table in tables):
        raise CallError(
            f"batches of {' and of '.join(map(str, sorted(batch)))} examples: a search with beams changes their order "
            "from step to step. Watch the model while it reads what it has written: model(**inputs, labels=written)"
        )
    if not 0 <= example < min(batch):
        raise CallError(f"example={example} is not one of 0 to {min(batch) - 1}, which the batch had")


def _number_tokens(tables: Sequence[JoinedCalls], source: Axis | None) -> tuple[Axis, Axis | None]:
    """Return numbered tokens."""
    cross = [table for table in tables if table.kind == "cross"]
    rows, columns = (cross or tables)[0].size
    if not cross and len({table.size for table in tables}) > 1:
        raise CallError(f"give rows=, the tokens of one side: {_sizes(tables)}")
    numbers = [axis([str(place) for place in range(count)]) for count in (rows, columns)]
    two = bool(cross) or rows != columns
    return numbers[0], source or (numbers[1] if two else None)


def _sides(table: JoinedCalls, rows: str, two: bool) -> tuple[str, str] | None:
    """Return the row and column axes; None if it needs two and only one is given."""
    if table.kind == "cross" or table.size[0] != table.size[1]:
        return ("target", "source") if two else None
    if table.kind == "encoder" and two:
        return "source", "source"
    return rows, rows


def _fits(table: JoinedCalls, example: int, size: tuple[int, int]) -> bool:
    """Whether the tokens fit. They may omit padding: last keys without weight, and queries there."""
    rows, columns = table.size
    if rows < size[0] or columns < size[1] or bool(table.weights[example, ..., size[1] :].any()):
        return False
    return rows == size[0] or (rows == columns and size[0] == size[1])


def _misfit(tables: Sequence[JoinedCalls], axes: Mapping[str, Axis]) -> str:
    given = " and ".join(f"{len(axes[side])} {word}" for side, word in _words(axes))
    hint = ""
    if any(table.steps > 1 and table.size[0] + 1 in map(len, axes.values()) for table in tables):
        hint = ". The last generated token is never read: leave it out"
    return f"{given} do not fit what was watched (rows × columns): {_sizes(tables)}{hint}"


def _words(axes: Mapping[str, Axis]) -> list[tuple[str, str]]:
    return [("source", "rows")] if "target" not in axes else [("target", "rows"), ("source", "columns")]


def _sizes(tables: Sequence[JoinedCalls]) -> str:
    found = dict.fromkeys(f"{family(table.name)} ({table.kind}) {table.size[0]} × {table.size[1]}" for table in tables)
    return list_names(list(found))


def _one_after_another(found: Sequence[Attention]) -> list[Attention]:
    """Join two stacks of one kind: the layers of the second follow those of the first."""
    stacks: dict[tuple[Kind, str], int] = {}  # and how many layers each has
    for one in found:
        stack = one.kind, family(one.name)
        stacks[stack] = max(stacks.get(stack, 0), one.layer + 1)
    begin: dict[tuple[Kind, str], int] = {}
    for kind, name in stacks:
        begin[kind, name] = sum(stacks[other] for other in begin if other[0] == kind)
    return [replace(one, layer=begin[one.kind, family(one.name)] + one.layer) for one in found]
