"""Arrays of pictures and their labels in the formats of common data sets. No format that can run code is read.

mnist.npz                              x_train, y_train, x_test, y_test, classes; or train_images, train_labels, ...
train-images-idx3-ubyte.gz, ...        MNIST and its relatives: a folder, or one of its files
data_batch_1.bin, ..., test_batch.bin  CIFAR-10 and CIFAR-100 in their binary form: a folder, or one of its files
"""

import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from regard.data.tables import SPLIT_NAMES, Role
from regard.errors import CallError, RegardError
from regard.files.hub import require_memory_for
from regard.files.lines import BROKEN, open_bytes

_IDX = re.compile(r"(?P<set>.*?)(?P<part>train|t10k|test|val)[-._](?P<what>images|labels)[-.]idx\d-ubyte(\.gz)?$")
_CIFAR = re.compile(r"(?P<part>data_batch_\d+|test_batch|train|test)\.bin$")
_ROLES = {"train": "train", "data": "train", "t10k": "test", "test": "test", "val": "valid"}
_SIDE, _COLORS = 32, 3  # of CIFAR
_NAMES = ("batches.meta.txt", "fine_label_names.txt")  # of its classes


def is_arrays(path: Path) -> bool:
    """Whether a file, or the files of a folder, have one of these formats."""
    if path.is_dir():
        return any(_IDX.match(file.name) for file in path.glob("*-images*ubyte*")) or bool(_cifar_files(path))
    if path.suffix == ".npz":
        return True
    return bool(_IDX.match(path.name)) or bool(_CIFAR.match(path.name) and path in _cifar_files(path.parent))


def load_arrays(path: Path) -> Mapping[str, np.ndarray]:
    """Return x_train and y_train, x_test and y_test, and perhaps `classes`; for an .npz, with the
    names in the file.
    """
    require_memory_for(path)
    try:
        if path.suffix == ".npz" and path.is_file():
            return np.load(path, allow_pickle=False)
        folder = path if path.is_dir() else path.parent
        return _cifar(folder) if _cifar_files(folder) and not _IDX.match(path.name) else _idx(path, folder)
    except (*BROKEN, ValueError, BadZipFile, zlib.error, MemoryError, struct.error) as problem:
        form = ".npz file" if path.suffix == ".npz" else "file"
        raise RegardError(f"{path}: is not a complete {form} of plain arrays ({problem})") from None


def of_role(
    arrays: Mapping[str, np.ndarray], role: Role, where: str
) -> tuple[np.ndarray, np.ndarray, list[str] | None]:
    """Return pictures, their labels, and the names of the labels if they are numbers of `classes`."""
    names = [name for split in SPLIT_NAMES[role] for name in (f"x_{split}", f"{split}_images", f"x{split}")]
    if (found := next((name for name in [*names, "x"] if name in arrays), None)) is None:
        raise CallError(f"{where}: it has no array {names[0]}; it has {', '.join(arrays)}")
    of_labels = found.replace("x", "y", 1) if found.startswith("x") else found.replace("images", "labels")
    if of_labels not in arrays:
        raise CallError(f"{where}: it has {found} but no {of_labels}")
    try:
        images, labels = arrays[found], arrays[of_labels]
        classes = [str(one) for one in arrays["classes"]] if "classes" in arrays else None
    except (*BROKEN, ValueError, BadZipFile, MemoryError) as problem:
        raise RegardError(f"{where}: is not a complete .npz file of plain arrays ({problem})") from None
    if images.ndim not in (3, 4):
        wanted = "pictures have rows and columns, and perhaps colors"
        raise CallError(f"{where}: the array {found} has the shape {images.shape}: {wanted}")
    if len(images) != len(labels):
        raise RegardError(f"{where}: {len(images):,} pictures but {len(labels):,} labels")
    return images, labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels, classes


def roles_of(arrays: Mapping[str, np.ndarray]) -> list[Role]:
    """Return the parts that the arrays contain."""
    prefixes = {role: tuple(f"x_{name}" for name in names) for role, names in SPLIT_NAMES.items()}
    others = {role: tuple(f"{name}_images" for name in names) for role, names in SPLIT_NAMES.items()}
    return [role for role in SPLIT_NAMES if any(name in arrays for name in (*prefixes[role], *others[role]))]


def _idx(path: Path, folder: Path) -> dict[str, np.ndarray]:
    """Return the files of one data set; in a folder with several (EMNIST), that of the file, or the first one."""
    matches = {file: found for file in sorted(folder.iterdir()) if (found := _IDX.match(file.name))}
    chosen = matches.get(path) or next(iter(matches.values()))
    arrays: dict[str, np.ndarray] = {}
    for file, found in matches.items():
        name = f"{'x' if found['what'] == 'images' else 'y'}_{_ROLES[found['part']]}"
        if found["set"] == chosen["set"] and name not in arrays:
            arrays[name] = _read_idx(file)
    return arrays


def _read_idx(file: Path) -> np.ndarray:
    with open_bytes(file) as opened:
        data = opened.read()
    zero, kind, axes = struct.unpack(">HBB", data[:4])
    if zero or kind != 8:
        raise ValueError(f"{file.name} is not in the format of MNIST")
    shape = struct.unpack(f">{axes}I", data[4 : 4 + 4 * axes])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _cifar_files(folder: Path) -> list[Path]:
    """Read files whose size is a multiple of one record: a label or two and a 32×32 color picture."""
    files = [file for file in sorted(folder.glob("*.bin")) if _CIFAR.match(file.name)]
    return [file for file in files if (size := file.stat().st_size) and 0 in (size % _row(1), size % _row(2))]


def _row(labels: int) -> int:
    return labels + _COLORS * _SIDE * _SIDE


def _cifar(folder: Path) -> dict[str, np.ndarray]:
    """Return the labels; for CIFAR-100 the second one, which is the finer one."""
    found: dict[str, list[np.ndarray]] = {}
    for file in _cifar_files(folder):
        labels = 1 if "batch" in file.name else 2
        rows = np.frombuffer(file.read_bytes(), np.uint8).reshape(-1, _row(labels))
        role = _ROLES[re.split(r"[_.]", file.name)[0]]
        pictures = rows[:, labels:].reshape(-1, _COLORS, _SIDE, _SIDE).transpose(0, 2, 3, 1)
        found.setdefault(f"x_{role}", []).append(pictures)
        found.setdefault(f"y_{role}", []).append(rows[:, labels - 1])
    arrays = {name: np.concatenate(parts) for name, parts in found.items()}
    if (names := next((folder / name for name in _NAMES if (folder / name).is_file()), None)) is not None:
        arrays["classes"] = np.array(names.read_text(encoding="utf-8").split())
    return arrays


def choice(arrays: Mapping[str, np.ndarray], kept: Sequence[int]) -> dict[str, np.ndarray]:
    """Return all arrays, with only these training examples."""
    images, labels, _ = of_role(arrays, "train", "the arrays")
    rest = {name: arrays[name] for name in arrays if "train" not in name and name not in ("x", "y")}
    return {**rest, "x_train": images[list(kept)], "y_train": labels[list(kept)]}
