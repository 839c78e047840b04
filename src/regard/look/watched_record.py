"""Convert the tables of a watched model to a record, with the given tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from regard.errors import CallError
from regard.look.axis import Axis, axis
from regard.look.from_arrays import Labels, axis_of
from regard.look.records import KINDS, ORDER, Attention, AttentionRecord, Kind
from regard.look.watched import Joined, Watched, family, listed, matches


def record_of(
    seen: Watched,
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
    tables = [_of_kind(table, kinds) for table in _chosen(seen, only)]
    _require_example(tables, example)
    source = None if columns is None else axis_of("columns", columns)
    if rows is None:
        target, source = _numbered(tables, source)
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
        if seen.rows is not None:  # an axis of their own, as these are not all of them
            looking = f"{looking} rows"
            shown[looking] = axes[sides[0]].taken(places)
        found.append(Attention(table.name, table.kind, table.layer, np.ascontiguousarray(weights), looking, sides[1]))
    if not found or axes.keys() - shown.keys():
        raise CallError(_misfit(tables, axes))
    used = {side for one in found for side in (one.rows, one.columns)}
    ordered = sorted(_one_after_another(found), key=lambda one: ORDER.index(one.kind))
    return AttentionRecord(
        tuple(ordered), {side: axis for side, axis in shown.items() if side in used},
        model=seen.model, input=input, output=output,
    )  # fmt: skip


def _chosen(seen: Watched, only: str | Sequence[str] | None) -> list[Joined]:
    tables = seen.tables()
    if only is None:
        return list(tables.values())
    found = [table for name, table in tables.items() if matches(name, [only] if isinstance(only, str) else only)]
    if not found:
        raise CallError(f"only={only!r} is none of the attentions that were watched: {listed(list(tables))}")
    return found


def _of_kind(table: Joined, kinds: Mapping[str, Kind]) -> Joined:
    for pattern, kind in kinds.items():
        if kind not in KINDS:
            raise CallError(f"kinds={{{pattern!r}: {kind!r}}} must be one of {', '.join(KINDS)}")
        if matches(table.name, [pattern]):
            return table._replace(kind=kind)
    return table


def _require_example(tables: Sequence[Joined], example: int) -> None:
    batch = {len(table.weights): table for table in tables}
    if len(batch) > 1 and any(table.steps > 1 for table in tables):
        raise CallError(
            f"batches of {' and of '.join(map(str, sorted(batch)))} examples: a search with beams changes their order "
            "from step to step. Watch the model while it reads what it has written: model(**inputs, labels=written)"
        )
    if not 0 <= example < min(batch):
        raise CallError(f"example={example} is not one of 0 to {min(batch) - 1}, which the batch had")


def _numbered(tables: Sequence[Joined], source: Axis | None) -> tuple[Axis, Axis | None]:
    """Return numbered tokens."""
    cross = [table for table in tables if table.kind == "cross"]
    rows, columns = (cross or tables)[0].size
    if not cross and len({table.size for table in tables}) > 1:
        raise CallError(f"rows= is needed, to say which side is meant: {_sizes(tables)}")
    numbers = [axis([str(place) for place in range(count)]) for count in (rows, columns)]
    two = bool(cross) or rows != columns
    return numbers[0], source or (numbers[1] if two else None)


def _sides(table: Joined, rows: str, two: bool) -> tuple[str, str] | None:
    """Return the row and column axes; None if it needs two and only one is given."""
    if table.kind == "cross" or table.size[0] != table.size[1]:
        return ("target", "source") if two else None
    if table.kind == "encoder" and two:
        return "source", "source"
    return rows, rows


def _fits(table: Joined, example: int, size: tuple[int, int]) -> bool:
    """Whether the tokens fit. They may omit padding: last keys without weight, and queries there."""
    rows, columns = table.size
    if rows < size[0] or columns < size[1] or bool(table.weights[example, ..., size[1] :].any()):
        return False
    return rows == size[0] or (rows == columns and size[0] == size[1])


def _misfit(tables: Sequence[Joined], axes: Mapping[str, Axis]) -> str:
    given = " and ".join(f"{len(axes[side])} {word}" for side, word in _words(axes))
    hint = ""
    if any(table.steps > 1 and table.size[0] + 1 in map(len, axes.values()) for table in tables):
        hint = ". The last token that is generated is never read: leave it out"
    return f"{given} do not fit what was watched (rows × columns): {_sizes(tables)}{hint}"


def _words(axes: Mapping[str, Axis]) -> list[tuple[str, str]]:
    return [("source", "rows")] if "target" not in axes else [("target", "rows"), ("source", "columns")]


def _sizes(tables: Sequence[Joined]) -> str:
    found = dict.fromkeys(f"{family(table.name)} ({table.kind}) {table.size[0]} × {table.size[1]}" for table in tables)
    return listed(list(found))


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
