"""Time from the shell to the answer, of commands that start, load a run and predict one output.

    python benchmarks/startup.py RUN INPUT [--rounds 9]
    python benchmarks/startup.py runs/demo "we are eating bread"

RUN is a finished run, and INPUT a text for it. Commands take turns, each in a new process with one thread; a first
round that is not counted fills the caches of files. Processor time counts, which other programs hardly change; the
clock is printed as well. The last column is the median of the ratios to `import torch` of the same round. `serve` is
timed until it answers its first request.
"""

import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import click

from regard.cost.hardware import processor

REGARD = (sys.executable, "-m", "regard")
TORCH = "import torch"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode, too
NOWHERE = subprocess.DEVNULL


class Cost(NamedTuple):
    processor: float
    clock: float


def cost(command: tuple[str, ...], port: int | None = None) -> Cost:
    """Seconds of a process, until it ends; with a port, until it answers there."""
    before, started = _used(), time.perf_counter()
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=NOWHERE, stderr=NOWHERE)
    if port is None:
        if process.wait() != 0:
            raise click.ClickException(f"{' '.join(command)} ended with {process.returncode}")
        clock = time.perf_counter() - started
    else:
        _answered(port, process)
        clock = time.perf_counter() - started
        process.send_signal(signal.SIGINT)
        process.wait()
    return Cost(_used() - before, clock)


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _answered(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with suppress(URLError, ConnectionError), urlopen(f"http://127.0.0.1:{port}/", timeout=30):
            return
        time.sleep(0.02)
    raise click.ClickException(f"the service ended with {process.returncode}")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("word")
@click.option("--rounds", default=9, show_default=True)
def main(run: Path, word: str, rounds: int) -> None:
    port = _free_port()
    commands: dict[str, tuple[str, ...]] = {
        TORCH: (sys.executable, "-c", TORCH),
        "regard --help": (*REGARD, "--help"),
        "regard predict": (*REGARD, "predict", str(run), word),
        "regard look": (*REGARD, "look", str(run), word),
        "regard serve": (*REGARD, "serve", str(run), "--port", str(port)),
    }
    ports = {"regard serve": port}
    found: dict[str, list[Cost]] = {name: [] for name in commands}
    for round_ in range(rounds + 1):
        for name, command in commands.items():
            taken = cost(command, ports.get(name))
            if round_:
                found[name].append(taken)
    print(f"{processor()}; load {os.getloadavg()[0]:.1f}; one thread; medians of {rounds} rounds")
    print(f"{'command':<16} {'processor, s':>12} {'clock, s':>9} {'times import torch':>19}")
    for name, costs in found.items():
        share = statistics.median(
            one.processor / torch.processor for one, torch in zip(costs, found[TORCH], strict=True)
        )
        of_processor, clock = (statistics.median(values) for values in zip(*costs, strict=True))
        print(f"{name:<16} {of_processor:12.2f} {clock:9.2f} {share:19.2f}")


if __name__ == "__main__":
    main()
