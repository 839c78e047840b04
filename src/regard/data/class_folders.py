"""Texts in folders: a sub-folder for each class, with one text per file.

reviews/good/1.txt   reviews/good/2.txt   reviews/bad/1.txt
"""

from collections.abc import Iterator
from pathlib import Path

from regard.data.pairs import Bad, Columns, Pair, pair_of
from regard.errors import CallError
from regard.files.lines import ending, read_lines

_DATASET = ("state.json", "dataset_dict.json")  # files of a folder that the `datasets` library wrote


def has_classes(folder: Path) -> bool:
    """Return whether a path is a folder that the `datasets` library did not write."""
    return folder.is_dir() and not any((folder / mark).exists() for mark in _DATASET)


def read_class_folders(folder: Path, name: str, columns: Columns) -> Iterator[Pair | Bad]:
    """Yield texts class by class, in the order of names. Hidden files and classes with an empty name are left out."""
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
