"""Texts in folders: a sub-folder for each class, and every text file below it is one text.

reviews/good/1.txt   reviews/good/2.txt   reviews/bad/1.txt
"""

from collections.abc import Iterator
from pathlib import Path

from regard.data.pairs import Bad, Columns, Pair, pair_of
from regard.errors import CallError
from regard.files.lines import ending, read_lines

_DATASET = ("state.json", "dataset_dict.json")  # what the `datasets` library leaves in a folder it wrote


def has_classes(folder: Path) -> bool:
    """Whether it is a folder, and not one that the `datasets` library wrote."""
    return folder.is_dir() and not any((folder / mark).exists() for mark in _DATASET)


def read_class_folders(folder: Path, name: str, columns: Columns) -> Iterator[Pair | Bad]:
    """Class by class, in the order of the names; hidden files are left out, and classes that are called nothing."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    found = [path for path in files if len(path.relative_to(folder).parts) > 1]
    if not found:
        raise CallError(f"{name}: a folder needs a sub-folder for each class, with files in it")
    for file in found:
        label = file.relative_to(folder).parts[0]
        if columns.target_text is not None and not columns.target_text(label):
            continue
        if ending(file) not in ("", ".txt"):
            yield Bad(str(file), 1, "unreadable", f"a folder of classes holds .txt files, not {file.suffix!r}")
            continue
        lines = list(read_lines(file))
        spoiled = next((line for line in lines if line.problem), None)
        if spoiled is not None:
            yield Bad(str(file), spoiled.number, spoiled.kind, spoiled.problem)
            continue
        yield pair_of("\n".join(line.text for line in lines), label, str(file), 1, columns)
