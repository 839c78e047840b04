"""How many files of regard a reader goes through, from `regard train RECIPE` and `regard predict` to what is said.

    python benchmarks/files_read.py [RECIPE INPUT] [--list]         without them: a caption, and a forecast

Both commands run in one process under a profiler that writes down the file of every function that is called. A file of
which only classes, constants and settings are used (code that runs when it is imported) does not count.
"""

import contextlib
import io
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import click

import regard
from regard.cli import cli

SOURCE = Path(regard.__file__).parent
CASES = [("shapes-caption", "corpus:shapes#0"), ("lag", "corpus:lag")]
LOWER = ("attention", "layers", "encoders", "decoders", "models", "decoding", "metrics", "training", "files")


def files_called(commands: list[list[str]]) -> dict[str, set[str]]:
    """By command, the files of regard whose functions it calls; bodies of modules and of classes are no functions."""
    found: dict[str, set[str]] = {}
    for command in commands:
        called: set[str] = set()

        def note(frame: FrameType, event: str, _: Any, called: set[str] = called) -> None:
            name = frame.f_code.co_filename
            optimized = frame.f_code.co_flags & 2  # CO_OPTIMIZED: a function, and no body of a module or a class
            if event == "call" and optimized and name.startswith(str(SOURCE)):
                called.add(str(Path(name).relative_to(SOURCE)))

        threading.setprofile(note)  # batches are made by a thread
        sys.setprofile(note)
        try:
            cli.main(command, prog_name="regard", standalone_mode=False, obj={})
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        found[command[0]] = called
    return found


def report(recipe: str, one: str, *, names: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        commands = [["train", recipe, "-o", run, "--max-steps", "3"], ["predict", run, one]]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = files_called(commands)
    every = set.union(*found.values())
    rooms = Counter(name.split("/")[0].removesuffix(".py") for name in every)
    print(f"{recipe}: {len(every)} files, {sum(rooms[room] for room in LOWER)} of them of the lower floors")
    print("  " + ", ".join(f"{name} {len(files)}" for name, files in found.items()))
    print("  " + ", ".join(f"{room} {count}" for room, count in rooms.most_common()))
    if names:
        print("\n".join(f"  {name}" for name in sorted(every)))


@click.command()
@click.argument("recipe", required=False)
@click.argument("one", required=False)
@click.option("--list", "names", is_flag=True, help="Name the files.")
def main(recipe: str | None, one: str | None, names: bool) -> None:
    for asked in [(recipe, one)] if recipe and one else CASES:
        report(*asked, names=names)


if __name__ == "__main__":
    main()
