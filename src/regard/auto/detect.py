"""Detect the input, the output and their columns in a file, two files or a folder.

The result is a cell of the table of jobs. Inputs: text, image, sound, series, question, image+text; none for text that
is only to be continued. Outputs: text, label, tags, span, values.
"""

from pathlib import Path

from regard.auto.detected import Detected
from regard.auto.files import DATA_FILES, ROWS, TABLES, role_of
from regard.auto.folders import of_folder
from regard.auto.single_files import of_file, of_parallel
from regard.auto.told import Told
from regard.errors import CallError
from regard.files.hub import snapshot
from regard.files.lines import ending
from regard.files.shards import files_of, is_pattern

HUB = "hub:"


def detect(data: str, told: Told = Told()) -> Detected:  # noqa: B008 (it is frozen)
    """Detect what `data` holds: FILE, FILE,FILE, a pattern of shards, a folder, or hub:OWNER/NAME."""
    if data.startswith(HUB):
        return of_folder(snapshot(data.removeprefix(HUB), DATA_FILES, "dataset"), told)
    place = Path(data).expanduser()
    if is_pattern(place) and files_of(place):
        return of_file(place, told)
    if not place.exists():
        if "," in data:
            return of_parallel({"train": _two(data)})
        raise CallError(f"{data}: no such recipe, file or folder")
    if place.is_dir():
        return of_folder(place, told)
    return of_file(place, told)


def _two(data: str) -> tuple[Path, Path]:
    files = [Path(part.strip()).expanduser() for part in data.split(",")]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise CallError(f"{data}: no such file: {missing[0]}")
    if len(files) != 2:
        raise CallError(f"{data}: {len(files)} files; parallel texts are two, SOURCE_FILE,TARGET_FILE")
    if tables := [file for file in files if ending(file) in (TABLES | ROWS) - {".ts"}]:
        train, other = sorted(files, key=lambda file: role_of(file.name) != "train")
        role = role_of(other.name) or "test"
        raise CallError(
            f"{tables[0]} is a table or a list, not one side of parallel texts. If both have the same columns: "
            f"regard train {train} data.{role if role != 'train' else 'test'}={other}"
        )
    return files[0], files[1]
