"""Files of records: one .npz with the arrays, and JSON (as bytes) for the rest. Loading executes no code.

`--json` and HTML pages use the same description, with other encodings of the arrays.
"""

import base64
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import CallError, RegardError
from regard.files import atomic
from regard.files.hub import require_memory_for
from regard.look.axis import Axis, Token, axis, from_png, to_png
from regard.look.card import Figure
from regard.look.records import KINDS, Attention, AttentionRecord, Kind, NextToken, OutputView
from regard.metrics.alignment import Gold

VERSION = 1
PACKED = (zipfile.BadZipFile, zlib.error, EOFError, MemoryError, RecursionError)  # errors of unpacking
Write = Callable[[np.ndarray], Any]


def save(record: AttentionRecord, path: Path) -> Path:
    """Write a record to an .npz file, atomically."""
    arrays: list[np.ndarray] = []

    def keep(array: np.ndarray) -> int:
        arrays.append(array)
        return len(arrays) - 1

    text = json.dumps({"version": VERSION, **describe(record, keep)}, ensure_ascii=False)
    named: dict[str, Any] = {f"weights{number}": array for number, array in enumerate(arrays)}

    def write(part: Path) -> None:
        with part.open("wb") as file:  # numpy would add .npz to a name
            np.savez_compressed(file, allow_pickle=False, record=np.frombuffer(text.encode(), np.uint8), **named)

    return atomic.write_with(path, write)


def load(path: str | Path) -> AttentionRecord:
    """Load a record from a file written by `record.save`."""
    require_memory_for(Path(path))
    try:
        with np.load(path, allow_pickle=False) as arrays:
            tree = json.loads(arrays["record"].tobytes().decode())
            if tree.pop("version", None) != VERSION:
                raise RegardError(f"{path} was written by another version of regard")
            return _restore(tree, lambda number: arrays[f"weights{number}"])
    except FileNotFoundError:
        raise CallError(f"no such file: {path}") from None
    except CallError as error:
        raise RegardError(f"{path} is damaged: {error}") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, *PACKED) as error:
        raise RegardError(f"{path} holds no attention record ({type(error).__name__}: {error})") from None


def as_dict(record: AttentionRecord) -> dict[str, Any]:
    """Return a dict for `--json`, with weights as lists of numbers."""
    return describe(record, lambda array: array.tolist())


def for_page(record: AttentionRecord, *, weights: bool = True) -> dict[str, Any]:
    """Return a dict for HTML. Weights are base 64 of little-endian float32: exact, a fifth of the size of decimals."""
    tree = describe(record, lambda array: base64.b64encode(array.astype("<f4").tobytes()).decode())
    return tree if weights else _without_weights(tree)


def _without_weights(tree: dict[str, Any]) -> dict[str, Any]:
    attentions = [{key: value for key, value in one.items() if key != "weights"} for one in tree["attentions"]]
    return {**tree, "attentions": attentions, "beams": [_without_weights(beam) for beam in tree["beams"]]}


def describe(record: AttentionRecord, write: Write) -> dict[str, Any]:
    gold = record.gold
    return {
        "method": record.method,
        "model": record.model,
        "input": record.input,
        "output": record.output,
        "forced": record.forced,
        "without": list(record.without),
        "score": record.score,
        "scores": list(record.scores),
        "axes": {name: _describe_axis(axis, write) for name, axis in record.axes.items()},
        "attentions": [
            {
                "name": one.name,
                "kind": one.kind,
                "layer": one.layer,
                "rows": one.rows,
                "columns": one.columns,
                "shape": list(one.weights.shape),
                "weights": write(one.weights),
            }
            for one in record.attentions
        ],
        "gold": None if gold is None else {"sure": sorted(gold.sure), "possible": sorted(gold.possible)},
        "evidence": [asdict(figure) for figure in record.evidence],
        "next_tokens": [[asdict(token) for token in step] for step in record.next_tokens],
        "said": None if record.said is None else asdict(record.said),
        "positional": dict(record.positional),
        "beams": [describe(beam, write) for beam in record.beams],
    }


def _describe_axis(axis: Axis, write: Write) -> dict[str, Any]:
    """Describe an axis, without the empty fields of images and signals."""
    tree: dict[str, Any] = {
        "tokens": [asdict(token) for token in axis.tokens], "text": axis.text, "grid": axis.grid, "times": axis.times,
        "after": axis.after,
    }  # fmt: skip
    if axis.times is not None:
        tree |= {"until": axis.until, "unit": axis.unit, "edges": axis.edges.tolist()}
    if axis.image is not None:
        tree |= {"image": to_png(axis.image), "size": axis.image.shape[:2]}
    if axis.signal is not None:
        tree |= {"signal": write(axis.signal), "signal_shape": axis.signal.shape}
    return tree


def _restore(tree: Mapping[str, Any], read: Callable[[int], np.ndarray]) -> AttentionRecord:
    gold = tree["gold"]
    return AttentionRecord(
        attentions=tuple(
            Attention(one["name"], one["kind"], one["layer"], read(one["weights"]), one["rows"], one["columns"])
            for one in tree["attentions"]
        ),
        axes={name: _axis(parts, read) for name, parts in tree["axes"].items()},
        method=tree["method"],
        model=tree["model"],
        input=tree["input"],
        output=tree["output"],
        score=tree["score"],
        scores=tuple(tree["scores"]),
        gold=None if gold is None else Gold(_links(gold["sure"]), _links(gold["possible"])),
        evidence=tuple(Figure(**figure) for figure in tree["evidence"]),
        beams=tuple(_restore(beam, read) for beam in tree["beams"]),
        forced=tree["forced"],
        without=tuple(tree["without"]),
        next_tokens=tuple(tuple(NextToken(**token) for token in step) for step in tree["next_tokens"]),
        said=None if tree["said"] is None else OutputView.of(tree["said"]),
        positional=tree["positional"],
    )


def _axis(parts: Mapping[str, Any], read: Callable[[int], np.ndarray]) -> Axis:
    tokens = tuple(
        Token(t["text"], None if t["span"] is None else tuple(t["span"]), t["word"], t["special"], t["unknown"])
        for t in parts["tokens"]
    )
    grid, times = parts["grid"], parts["times"]
    return Axis(
        tokens, parts["text"], grid and tuple(grid), times if times is None else tuple(times),
        until=parts.get("until"), unit=parts.get("unit", "s"), after=parts["after"],
        image=from_png(parts["image"]) if "image" in parts else None,
        signal=read(parts["signal"]) if "signal" in parts else None,
    )  # fmt: skip


def _links(pairs: list[list[int]]) -> frozenset[tuple[int, int]]:
    return frozenset((source, target) for source, target in pairs)


# Attention records from arrays of any library: `regard.look.record(weights=..., rows=..., columns=...)`.

Labels = Sequence[str] | Axis


def record(
    weights: Any,
    rows: Labels,
    columns: Labels | None = None,
    *,
    kind: Kind | None = None,
    method: str = "raw",
    model: str = "",
    input: str = "",
    output: str = "",
    scores: Sequence[float] = (),
) -> AttentionRecord:
    """Make an attention record from the weights of any model and the tokens on both sides.

    weights   T × S or heads × T × S (numpy, torch or lists); a leading batch dimension of 1 is removed. A list or
              tuple has one table per layer, a mapping one per name
    rows      queries: labels, or an `axis(...)` with words, a grid or times
    columns   keys; by default the rows (self-attention)
    kind      "cross", "encoder" or "decoder"; by default cross if there are columns, else encoder
    method    name of the numbers for the caption; "raw" is attention as the model computed it
    """
    if kind is not None and kind not in KINDS:
        raise CallError(f"kind={kind!r} must be one of {', '.join(KINDS)}")
    kind = kind or ("encoder" if columns is None else "cross")
    row_axis, column_axis = axis_of("rows", rows), None if columns is None else axis_of("columns", columns)
    axes = {"source": row_axis} if column_axis is None else {"target": row_axis, "source": column_axis}
    side = "source" if column_axis is None else "target"
    if scores and len(scores) != len(row_axis):
        raise CallError(f"{len(scores)} scores do not fit {len(row_axis)} rows")
    if scores and column_axis is None:
        raise CallError("scores belong to generated rows: give columns, too")
    attentions = [
        Attention(name, kind, number, _table(name, table), side, "source")
        for number, (name, table) in enumerate(_name_weights(weights).items())
    ]
    return AttentionRecord(
        tuple(attentions), axes, method=method, model=model, input=input, output=output, scores=tuple(scores)
    )


def axis_of(name: str, labels: Labels) -> Axis:
    if isinstance(labels, Axis):
        return labels
    if isinstance(labels, str):
        raise CallError(f"{name} must be a list of tokens, not one text: {name}=text.split() for words")
    return axis(labels)


def _name_weights(weights: Any) -> dict[str, Any]:
    if isinstance(weights, Mapping):
        found = {str(name): table for name, table in weights.items()}
    elif isinstance(weights, tuple | list) and any(one is None or np.ndim(_array(one)) >= 2 for one in weights):
        found = {f"layer {number}": table for number, table in enumerate(weights)}
    else:
        found = {"attention": weights}
    if not found:
        raise CallError("no weights were given: models may return them only with output_attentions=True")
    return found


def _table(name: str, table: Any) -> np.ndarray:
    """Return heads × rows × columns as float32."""
    if table is None:
        raise CallError(
            f"{name} has no weights: a fused kernel returns none; request them from the model (output_attentions=True)"
        )
    try:
        array = np.asarray(_array(table), dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise CallError(f"{name} is not a table of numbers: {error}") from None
    if array.ndim == 4:
        if len(array) != 1:
            raise CallError(f"{name} has the weights of {len(array)} sentences: give those of one, weights[i]")
        array = array[0]
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3:
        raise CallError(f"{name} has {array.ndim} dimensions; weights are rows × columns or heads × rows × columns")
    return array


def _array(table: Any) -> Any:
    """Convert to numpy, also from a torch tensor with gradient, in half precision or on a GPU."""
    if hasattr(table, "detach"):
        return table.detach().float().cpu().numpy()
    return table
