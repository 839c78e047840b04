"""Data that is given from Python: tables, lists, arrays, pictures. It is written into the run's folder first, so that a
run that was stopped goes on with it, and whoever finds the folder knows what it was trained on.

    DataFrame, {"name": column, ...}         a table
    array or tensor, steps (× columns)       a series, or several
    ["a text", ...]                          texts to be continued
    [(one, other), ...]                      pairs: two texts, or a text and its label
    (inputs, said)                           texts or pictures (PIL, arrays, tensors), and labels or texts
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import CallError
from regard.files import atomic


def as_path(data: Any, folder: Path) -> str:
    """Where `data` is: as it was given, or as it was written into `folder`."""
    if isinstance(data, str | Path):
        return str(data)
    if isinstance(data, tuple) and len(data) == 2 and not isinstance(data[0], str):
        return _labeled(data[0], data[1], folder)
    if isinstance(data, Mapping):
        return _table({str(name): _cells(column) for name, column in data.items()}, folder)
    if not isinstance(data, Sequence) and hasattr(data, "to_frame") and not hasattr(data, "columns"):
        data = data.to_frame(str(data.name or "value"))  # a Series of pandas
    if not isinstance(data, Sequence) and hasattr(data, "columns") and hasattr(data, "iloc"):
        return _table(_frame(data), folder)
    if not isinstance(data, Sequence) and getattr(data, "ndim", 0) in (1, 2):
        steps = np.asarray(_cells(data))
        if steps.size and steps.dtype.kind in "fiu":
            columns = steps.reshape(len(steps), -1).T
            return _table({f"column {at}": column.tolist() for at, column in enumerate(columns, 1)}, folder)
    if isinstance(data, Sequence) and data and all(isinstance(text, str) for text in data):
        folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(" ".join(text.split()) + "\n" for text in data)
        return str(atomic.write_text(folder / "data.txt", lines))
    if isinstance(data, Sequence) and data and all(isinstance(row, Sequence) and len(row) == 2 for row in data):
        return _table({"source": [row[0] for row in data], "target": [row[1] for row in data]}, folder)
    raise CallError(
        f"data of {type(data).__name__}: give a path, a table (a DataFrame, or columns by name), a series (an array), "
        "texts, pairs [(one, other), ...], or (inputs, labels)"
    )


def _cells(column: Any) -> list[Any]:
    """Of a list, an array or a tensor, as Python has them."""
    return column.tolist() if hasattr(column, "tolist") else list(column)


def _frame(data: Any) -> dict[str, Any]:
    """The columns of a DataFrame of pandas, or of what is like one; an index that says something comes first."""
    index = {} if type(data.index).__name__ == "RangeIndex" else {"time": [str(one) for one in data.index]}
    return index | {str(name): data[name].tolist() for name in data.columns}


def _table(columns: Mapping[str, Sequence[Any]], folder: Path) -> str:
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise CallError(
            f"the columns have {', '.join(map(str, sorted(lengths)))} cells: they must be of one length, not 0"
        )
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "data.csv"
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return str(file)


def _labeled(inputs: Any, labels: Any, folder: Path) -> str:
    if len(inputs) != len(labels) or not len(inputs):
        raise CallError(f"{len(inputs):,} inputs and {len(labels):,} labels: they must be as many, and not none")
    said = [str(one.item() if hasattr(one, "item") else one) for one in _cells(labels)]
    if isinstance(inputs[0], str):
        return _table({"text": list(inputs), "label": said}, folder)
    pictures = [_picture(one) for one in inputs]
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    names = [f"pictures/{number:06d}.png" for number in range(len(pictures))]
    for name, picture in zip(names, pictures, strict=True):
        picture.save(folder / name)
    return _table({"image": names, "label" if len({*said}) <= len(said) / 2 else "text": said}, folder)


def _picture(one: Any) -> Any:
    """A picture of PIL that a PNG file can hold, with all its bits."""
    from PIL import Image

    if not hasattr(one, "convert"):
        return Image.fromarray(_pixels(one))
    return one if one.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16") else one.convert("RGB")


def _pixels(one: Any) -> np.ndarray:
    """Rows × columns (× 3) of bytes, from an array or a tensor; channels may stand first."""
    array = np.asarray(one)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.ndim not in (2, 3):
        wanted = "rows × columns, with 3 colors or none; recordings and series are given as files"
        raise CallError(f"an input of shape {array.shape} is no picture: {wanted}")
    if array.dtype != np.uint8:
        low, high = float(array.min()), float(array.max())
        if low < 0 or high > 255:
            raise CallError(f"a picture has numbers from {low:g} to {high:g}: give bytes, or shares from 0 to 1")
        array = (array * (255 if high <= 1 else 1)).round().astype(np.uint8)
    return np.ascontiguousarray(array)
