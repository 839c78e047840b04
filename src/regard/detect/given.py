"""Data from Python: tables, lists, arrays, pictures. It is written into the run's folder, so that a stopped run can be
resumed and the folder records its training data.

    DataFrame, {"name": column, ...}         a table (pandas, Polars, Arrow)
    array or tensor, steps (× columns)       a series, or several
    ["a text", ...]                          texts to be continued
    ["a.en", "a.fr"]                         two parallel files
    [(one, other), ...]                      pairs: two texts, or a text and its label
    (inputs, labels)                         texts or pictures (PIL, arrays, tensors), and labels or texts
    {"train": ..., "valid": ..., "test": ...}    each of them any of the above
"""

import csv
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.columns import SYNONYMS
from regard.data.tables import SPLIT_NAMES
from regard.errors import CallError
from regard.files import atomic

Tell = Callable[[str], None]


def white_of(data: Any) -> float:
    """Return the value of white in picture arrays other than bytes: 255 if any number is above 1, else 1.

    The run stores it as `data.white`, so that inputs are read like the training data.
    """
    return _white(data[0]) if isinstance(data, tuple) and len(data) == 2 and isinstance(data[0], Iterable) else 1.0


def _white(inputs: Iterable[Any]) -> float:
    arrays = [np.asarray(one) for one in inputs if not isinstance(one, str | Path) and not hasattr(one, "convert")]
    arrays = [one for one in arrays if one.ndim in (2, 3) and one.size and one.dtype != np.uint8]
    low = min((float(one.min()) for one in arrays), default=0.0)
    high = max((float(one.max()) for one in arrays), default=0.0)
    if low < 0 or high > 255:
        raise CallError(f"the pictures have numbers from {low:g} to {high:g}: give bytes, or 0 to 1, or 0 to 255")
    return 255.0 if high > 1 else 1.0


report: Tell = partial(print, "regard:", file=sys.stderr)  # an answer on standard output stays separate


def materialize(data: Any, folder: Path, report: Tell = lambda message: None) -> str:
    """Return the path of `data`: the given path, or the file in `folder` that it was written to."""
    if isinstance(data, str | Path):
        return str(data)
    if isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], str | Path):
        return _write_labeled(data[0], data[1], folder, report)
    if (columns := frame_columns(data)) is not None:
        return _table(columns, folder)
    if not isinstance(data, Sequence) and getattr(data, "ndim", 0) in (1, 2):
        steps = np.asarray(_cells(data))
        if steps.size and steps.dtype.kind in "fiu":
            columns = steps.reshape(len(steps), -1).T
            return _table({f"column {at}": column.tolist() for at, column in enumerate(columns, 1)}, folder)
    if isinstance(data, Sequence) and data and all(isinstance(text, str | Path) for text in data):
        if _are_files(data):
            return _parallel(data)
        folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(" ".join(str(text).split()) + "\n" for text in data)
        return str(atomic.write_text(folder / "data.txt", lines))
    if isinstance(data, Sequence) and data and all(isinstance(row, Sequence) and len(row) == 2 for row in data):
        return _table({"source": [row[0] for row in data], "target": [row[1] for row in data]}, folder)
    raise CallError(
        f"data of {type(data).__name__}: give a path, a table (a DataFrame, or columns by name), a series (an array), "
        "texts, pairs [(one, other), ...], or (inputs, labels)"
    )


def has_parts(data: Any) -> bool:
    """Return whether a mapping has train, and perhaps valid, test and other settings of a data section. A table,
    {"name": column}, may have a column called "train", too: its cells are not datasets."""
    parts = [data[role] for role in SPLIT_NAMES if role in data] if isinstance(data, Mapping) else []
    whole = all(isinstance(part, str | Path | tuple) or frame_columns(part) is not None for part in parts)
    return bool(parts) and "train" in data and whole


def _are_files(data: Sequence[Any]) -> bool:
    return all(isinstance(one, Path) or ("\n" not in one and len(one) < 4096 and Path(one).is_file()) for one in data)


def _parallel(files: Sequence[str | Path]) -> str:
    if len(files) != 2:
        raise CallError(f"{len(files)} files: give one, two parallel ones (SOURCE, TARGET), or the folder of all files")
    return ",".join(map(str, files))


# --------------------------------------------------------------------------------------------------------------- tables
def frame_columns(data: Any) -> dict[str, list[Any]] | None:
    """Return the columns of a table (of pandas, Polars, Arrow, `datasets`, or a mapping); None for anything else."""
    if isinstance(data, Mapping):
        return {str(name): _cells(column) for name, column in data.items()}
    if isinstance(data, Sequence | np.ndarray):
        return None
    if hasattr(data, "to_frame") and not hasattr(data, "columns"):
        data = data.to_frame(str(data.name or "value"))  # a series of pandas or Polars
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        names = _distinct(data.columns)
        return _index(data.index, names) | {name: data.iloc[:, at].tolist() for at, name in enumerate(names)}
    if hasattr(data, "columns") and hasattr(data, "get_columns"):  # Polars
        names = _distinct(data.columns)
        return {name: column.to_list() for name, column in zip(names, data.get_columns(), strict=True)}
    if hasattr(data, "column_names") and hasattr(data, "to_pydict"):  # Arrow
        names = _distinct(data.column_names)
        return {name: data.column(at).to_pylist() for at, name in enumerate(names)}
    if hasattr(data, "column_names") and hasattr(data, "features"):  # datasets
        return {str(name): _cells(data[name]) for name in data.column_names}
    return None


def _distinct(names: Sequence[Any]) -> list[str]:
    found = [" ".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in names]
    doubled = [name for name, count in Counter(found).items() if count > 1]
    if doubled:
        raise CallError(f"the table has {found.count(doubled[0])} columns named {doubled[0]!r}: rename or drop them")
    return found


def _index(index: Any, names: Sequence[str]) -> dict[str, list[Any]]:
    """Return an informative index of pandas (named, or of times) as columns. Row numbers, which a filter or a shuffle
    leaves behind, are dropped."""
    found: dict[str, list[Any]] = {}
    for level in range(index.nlevels):
        values = index.get_level_values(level) if index.nlevels > 1 else index
        times = type(values).__name__ in ("DatetimeIndex", "PeriodIndex")
        name = str(values.name) if values.name is not None else "time" if times else ""
        if name and name not in names:
            found[name] = [str(one) for one in values]
    return found


def _cells(column: Any) -> list[Any]:
    """Return the cells of a list, an array or a tensor as Python values."""
    return column.tolist() if hasattr(column, "tolist") else list(column)


def is_missing(cell: Any) -> bool:
    """Return whether a cell is None, NaN, NaT or pd.NA."""
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def _written_cells(column: Sequence[Any]) -> list[Any]:
    """Return cells as written to a file. Missing ones are None, and whole numbers stay whole, although NaN made floats
    of them."""
    found = [None if is_missing(cell) else _plain(cell) for cell in column]
    filled = [cell for cell in found if cell is not None]
    if len(filled) < len(found) and all(isinstance(cell, float) and cell.is_integer() for cell in filled):
        return [None if cell is None else int(cell) for cell in found]
    return found


def _plain(cell: Any) -> Any:
    if isinstance(cell, Mapping):
        return {str(key): _plain(value) for key, value in cell.items()}
    if isinstance(cell, list | tuple | set | frozenset):
        return [_plain(one) for one in cell]
    return _plain(cell.tolist()) if hasattr(cell, "tolist") else cell  # an array or a number of numpy or torch


def _table(columns: Mapping[str, Sequence[Any]], folder: Path) -> str:
    """Write a table as CSV, or as JSON Lines if cells are lists or mappings."""
    lengths = {name: len(column) for name, column in columns.items()}
    if not lengths or not max(lengths.values()):
        raise CallError("the table has no rows" if lengths else "the table has no columns")
    if len({*lengths.values()}) > 1:
        said = ", ".join(f"{name!r} has {length:,}" for name, length in lengths.items())
        raise CallError(f"the columns must have equal lengths: {said}")
    folder.mkdir(parents=True, exist_ok=True)
    written = {name: _written_cells(column) for name, column in columns.items()}
    rows = zip(*written.values(), strict=True)
    if any(isinstance(cell, list | dict) for column in written.values() for cell in column):
        objects = (dict(zip(written, row, strict=True)) for row in rows)
        lines = (json.dumps(one, ensure_ascii=False, default=str) + "\n" for one in objects)
        return str(atomic.write_text(folder / "data.jsonl", "".join(lines)))
    file = folder / "data.csv"
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(written)
        writer.writerows(rows)
    return str(file)


def rows_of(table: Mapping[str, Sequence[Any]], settings: Any) -> list[Any]:
    """Return one input per row, from the columns that a model was trained on (`settings`, its data section)."""
    sides = _sides(settings)[0]
    columns = {
        side: table[_column(side, getattr(settings, side, None), table, alone=len(sides) == 1)] for side in sides
    }
    for side, cells in columns.items():
        empty = next((row for row, cell in enumerate(cells) if is_missing(cell)), None)
        if empty is not None:
            raise CallError(f"row {empty} of the table has no {side}: drop it, or fill it")
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return rows if len(sides) > 1 else [row[sides[0]] for row in rows]


def test_part(data: Any, settings: Any, folder: Path, report: Tell) -> dict[str, Any]:
    """Write test data to `folder`; return the settings that name it and its columns."""
    if not hasattr(settings, "columns"):  # a whole table is one input
        return {"test": materialize(data, folder, report)}
    inputs, target = _sides(settings)
    if isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], str | Path) and len(inputs) == 1:
        file = _write_labeled(data[0], data[1], folder, report, getattr(settings, "white", None))
        with open(file, encoding="utf-8") as written:
            names = next(csv.reader(written))
        return {"test": file, "format": "csv", "header": None, inputs[0]: names[0], target: names[1]}
    if (table := frame_columns(data)) is None:
        return {"test": materialize(data, folder, report)}
    file = Path(_table(table, folder))
    named = {side: _column(side, getattr(settings, side, None), table, alone=False) for side in (*inputs, target)}
    several = getattr(settings, "separator", None) is not None
    drop_missing(file, [column for side, column in named.items() if not (several and side == target)], report)
    return {"test": str(file), "format": "auto", "header": None, **named}


def _sides(settings: Any) -> tuple[list[str], str]:
    """Return the names of the inputs of a data section, and of its target."""
    sides = [side for side in settings.columns.sides if side != settings.columns.optional]
    return sides[:-1], sides[-1]


def _column(side: str, wanted: Any, table: Mapping[str, Any], *, alone: bool) -> str:
    """Return the name of the column that training read: by its name, its number, or a usual name for such columns."""
    names = list(table)
    if isinstance(wanted, int) and wanted < len(names):
        return names[wanted]
    if isinstance(wanted, str) and wanted not in names and all(part in names for part in wanted.split("+")):
        return wanted  # several columns of 0 and 1
    called = [str(wanted)] if isinstance(wanted, str) else [side, *SYNONYMS.get(side, ())]
    lower = {name.lower(): name for name in reversed(names)}
    if (found := next((lower[name.lower()] for name in called if name.lower() in lower), None)) is not None:
        return found
    if alone and len(names) == 1 and wanted is None:
        return names[0]
    raise CallError(f"the table has no column {called[0]!r}, which the model was trained on; it has {', '.join(names)}")


def drop_missing(file: Path, columns: Sequence[str], report: Tell) -> bool:
    """Remove rows without a cell in one of these columns from a table written from Python. Return whether there were
    any."""
    lines = file.suffix == ".jsonl"
    with file.open(encoding="utf-8", newline="") as source:
        rows: list[dict[str, Any]] = [*map(json.loads, source)] if lines else [*csv.DictReader(source)]
    kept = [row for row in rows if all(row[name] not in (None, "") for name in columns)]
    if len(kept) == len(rows):
        return False
    counted = ((name, sum(row[name] in (None, "") for row in rows)) for name in columns)
    which = ", ".join(f"{count:,} have no {name!r}" for name, count in counted if count)
    report(f"{len(rows) - len(kept):,} of {len(rows):,} rows are left out: {which}")
    if not kept:
        raise CallError(f"no row has {' and '.join(map(repr, columns))}")
    _table({name: [row[name] for row in kept] for name in rows[0]}, file.parent)
    return True


# ---------------------------------------------------------------------------------------------- inputs and their labels
def _write_labeled(inputs: Any, labels: Any, folder: Path, report: Tell, white: float | None = None) -> str:
    """Write inputs and their labels. An input without a label is left out. `white`: of a run's `data`."""
    inputs, labels = list(_single(inputs)), _written_cells(_cells(_single(labels)))
    if len(inputs) != len(labels) or not len(inputs):
        raise CallError(f"{len(inputs):,} inputs and {len(labels):,} labels: give as many of each, and at least one")
    whole = [number for number, label in enumerate(labels) if label is not None and not is_missing(inputs[number])]
    if len(whole) < len(labels):
        report(f"{len(labels) - len(whole):,} of {len(labels):,} rows are left out: their input or label is missing")
    if not whole:
        raise CallError("no input has a label")
    inputs, said = [inputs[number] for number in whole], [labels[number] for number in whole]
    if isinstance(inputs[0], str):
        return _table({"text": inputs, "label": said}, folder)
    said = [str(one) for one in said]
    white = _white(inputs) if white is None else white
    pictures = [_picture(one, white) for one in inputs]
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    names = [f"pictures/{number:06d}.png" for number in range(len(pictures))]
    for name, picture in zip(names, pictures, strict=True):
        picture.save(folder / name)
    return _table({"image": names, "label" if len({*said}) <= len(said) / 2 else "text": said}, folder)


def _single(data: Any) -> Any:
    """Return the only column of a table; anything else unchanged."""
    columns = frame_columns(data)
    if columns is None or isinstance(data, Mapping) or hasattr(data, "to_frame"):
        return data
    if len(columns) != 1:
        raise CallError(f"(inputs, labels): a table of the columns {', '.join(columns)}; give one column, or the table")
    return next(iter(columns.values()))


def _picture(one: Any, white: float) -> Any:
    """Return a PIL picture that a PNG file can hold, with all its bits."""
    from PIL import Image

    if not hasattr(one, "convert"):
        return Image.fromarray(_pixels(one, white))
    return one if one.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16") else one.convert("RGB")


def _pixels(one: Any, white: float) -> np.ndarray:
    """Return an array or a tensor as rows × columns (× 3) of bytes; channels may be the first axis."""
    array = np.asarray(one)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.ndim not in (2, 3):
        wanted = "rows × columns, with 3 colors or none; recordings and series are given as files"
        raise CallError(f"an input of shape {array.shape} is not a picture: {wanted}")
    if array.dtype != np.uint8:
        if array.size and not 0 <= array.min() <= array.max() <= white:
            raise CallError(f"a picture has numbers from {array.min():g} to {array.max():g}, not 0 to {white:g}")
        array = (array * (255 / white)).round().astype(np.uint8)
    return np.ascontiguousarray(array)
