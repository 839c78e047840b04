"""A light installation compared with one with torch: size, time to the first output, memory, outputs a second.

    python benchmarks/light.py runs/demo

The steps of the Dockerfile are run in a temporary folder. Both installations then predict the same inputs with the same
model, in float32 and with one thread each, and their outputs must be equal. Outputs a second are by processor time,
which other programs hardly change.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, NamedTuple

import click

import regard
from regard.exporters.export import export

ROOT = Path(__file__).resolve().parents[1]
INPUTS, TIMES = 200, 5
#: `regard predict`, and what it took. The most memory is that of this program, and not of the one that started it.
FIRST = """
import json, sys, time
from regard.cli import cli
cli.main(["predict", *sys.argv[1:]], standalone_mode=False)
most = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"processor": time.process_time(), "memory": int(most.split()[1]) * 1024}))
"""
ANSWER = """
import json, sys, time
import regard
folder, inputs = sys.argv[1], json.load(open(sys.argv[2]))
run = regard.load(folder)
said, speed = {}, {}
for name, how in (("greedy", {"beam": 1}), ("beam 5", {"beam": 5})):
    run.predict(inputs[:20], **how)
    begin = time.process_time()
    said[name] = [one.text for one in run.predict(inputs, **how)]
    speed[name] = len(inputs) / (time.process_time() - begin)
print(json.dumps({"said": said, "speed": speed}))
"""


class Measured(NamedTuple):
    name: str
    size: int  # bytes
    seconds: float  # from the start of the process to the end of it, with one output
    processor: float  # seconds of that which the processor worked
    memory: int  # bytes
    speed: dict[str, float]
    said: dict[str, list[str]]


def steps(dockerfile: Path) -> Iterator[str]:
    """The commands of its first stage."""
    first = re.split(r"(?m)^FROM ", dockerfile.read_text(encoding="utf-8"))[1]
    return (line.removeprefix("RUN ") for line in first.splitlines() if line.startswith("RUN "))


def installed(folder: Path) -> Path:
    """The Python of an installation that the steps have made."""
    environment = {**os.environ, "SOURCE": str(ROOT), "LIGHT": str(folder)}
    for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(name, None)
    for step in steps(ROOT / "Dockerfile"):
        print(f"$ {step}", file=sys.stderr)
        subprocess.run(["sh", "-ec", step], check=True, env=environment, stdout=subprocess.DEVNULL)
        print(f"  {size_of(folder / 'lib') / 1e6:.0f} MB", file=sys.stderr)
    return folder / "bin" / "python"


def size_of(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


def size_with_torch() -> int:
    """Of the files of `regard[train,web]` and all that it needs, as they are installed here, without compiled ones."""
    found: set[str] = set()
    asked = ["regard"]
    while asked:
        name = asked.pop()
        if name.lower() in found:
            continue
        try:
            needs = distribution(name).requires or []
        except ModuleNotFoundError:  # for another system
            continue
        found.add(name.lower())
        wanted = r"extra\s*==\s*['\"](train|web)['\"]" if name == "regard" else r"^$"
        asked += [re.match(r"[\w.-]+", one)[0] for one in needs if "extra" not in one or re.search(wanted, one)]  # pyright: ignore[reportOptionalSubscript]
    files = (file.locate() for name in found for file in distribution(name).files or () if file.suffix != ".pyc")
    return sum(Path(str(file)).stat().st_size for file in files if Path(str(file)).is_file())


def measured(name: str, size: int, python: Path, folder: Path, inputs: Path, environment: dict[str, str]) -> Measured:
    one = json.loads(inputs.read_text(encoding="utf-8"))[0]
    times, worked, memory = [], [], []
    for _ in range(TIMES + 1):  # the first compiles modules
        begin = time.perf_counter()
        call = [python, "-c", FIRST, folder, one]
        done = subprocess.run(call, env=environment, capture_output=True, text=True, check=True)
        times.append(time.perf_counter() - begin)
        told = json.loads(done.stdout.splitlines()[-1])
        worked.append(told["processor"])
        memory.append(told["memory"])
    done = subprocess.run(
        [python, "-c", ANSWER, folder, inputs], env=environment, capture_output=True, text=True, check=True
    )
    answers: dict[str, Any] = json.loads(done.stdout)
    return Measured(name, size, min(times[1:]), min(worked[1:]), max(memory), answers["speed"], answers["said"])


@click.command(help=__doc__)
@click.argument("run", type=click.Path(path_type=Path), default="runs/demo")
@click.option("--export", "exported", type=click.Path(path_type=Path), help="Its export to ONNX; else, it is made.")
def main(run: Path, exported: Path | None) -> None:
    with tempfile.TemporaryDirectory(prefix="regard-light-") as name:
        place = Path(name)
        if exported is None:
            exported = place / "exported"
            export(run, to="onnx", out=exported)
        inputs = place / "inputs.json"
        inputs.write_text(json.dumps([one.input for one in regard.load(run).examples(INPUTS)]), encoding="utf-8")
        python = installed(place / "light")
        size = size_of(place / "light" / "lib")
        plain = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        here = {**plain, "PYTHONPATH": str(ROOT / "src")}
        rows = [
            measured("light", size, python, exported.resolve(), inputs, plain),
            measured("torch", size_with_torch(), Path(sys.executable), run.resolve(), inputs, here),
        ]
    ways = list(rows[0].speed)
    heads = ["installation", "size, MB", "first output, s", "of it processor, s", "memory, MB"]
    heads += [f"{way}, /s" for way in ways]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        times, speeds = (f"{row.seconds:.2f}", f"{row.processor:.2f}"), (f"{row.speed[way]:.0f}" for way in ways)
        print(f"| {' | '.join([row.name, f'{row.size / 1e6:.1f}', *times, f'{row.memory / 1e6:.0f}', *speeds])} |")
    said = "the same" if rows[0].said == rows[1].said else "NOT the same"
    print(f"outputs of {len(rows[0].said[ways[0]])} inputs, each way: {said}")


if __name__ == "__main__":
    main()
