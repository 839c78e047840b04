"""What batching gains: many clients at once compared with one request at a time, on one service, over loopback.

    python benchmarks/serve.py [--run runs/mine] [--clients 64] [--seconds 60] [--alone 15]

Without --run, `translate-transformer` is trained for four minutes first, into runs/benchmark-serve. Every request is
one sentence of the test split of the corpus, with the recipe's decoding. The clients are coroutines of this process,
and send their next request when they have the answer to the last one; they share the cores of the machine with the
service. Pass: no failed request, and at least four times the throughput of one request at a time.
"""

import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import click
import numpy as np

HEAD = "POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


async def client(port: int, texts: "itertools.cycle[str]", until: float, seen: list[float], failed: list[str]) -> None:
    """One connection, kept open; the seconds of every answer. A plain reader costs less than an HTTP library would."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        body = json.dumps({"inputs": [next(texts)]}).encode()
        started = time.perf_counter()
        writer.write(HEAD.format(len(body)).encode() + body)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        content = await reader.readexactly(int(length[1]) if length else 0)
        seen.append(time.perf_counter() - started)
        if not head.startswith(b"HTTP/1.1 200 ") or not json.loads(content)["predictions"]:
            failed.append(content.decode(errors="replace")[:200])
    writer.close()
    await writer.wait_closed()


async def load(port: int, clients: int, seconds: float, sentences: list[str]) -> tuple[list[float], list[str], float]:
    """Seconds of each answer, failures, and how long it took in all."""
    texts, seen, failed = itertools.cycle(sentences), [], []
    started = time.perf_counter()
    await asyncio.gather(*(client(port, texts, started + seconds, seen, failed) for _ in range(clients)))
    return seen, failed, time.perf_counter() - started


def report(name: str, seen: list[float], failed: list[str], seconds: float) -> float:
    p50, p99 = np.percentile(seen, [50, 99]) * 1000
    rate = len(seen) / seconds
    print(f"{name:<22} {rate:8.1f} requests/s   p50 {p50:7.1f} ms   p99 {p99:7.1f} ms   {len(failed)} failed")
    for sentence in failed[:3]:
        print(f"   {sentence}")
    return rate


def processor_seconds(pid: int) -> float:
    """That a process has used so far, where the system tells (Linux): fair on a machine that others use, too."""
    file = Path(f"/proc/{pid}/stat")
    if not file.is_file():
        return float("nan")
    fields = file.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def batches(port: int) -> float:
    """How often the model has been called."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        found = re.search(r"^regard_batches_total\{.*\} (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found is not None
    return float(found[1])


@click.command(context_settings={"show_default": True})
@click.option("--run", type=click.Path(path_type=Path), help="a run to serve")
@click.option("--clients", type=click.IntRange(1, 512), default=64, help="at once")
@click.option("--seconds", type=click.FloatRange(1, 600), default=60.0, help="that they go on")
@click.option("--alone", type=click.FloatRange(1, 600), default=15.0, help="seconds of one request at a time")
def main(run: Path | None, clients: int, seconds: float, alone: float) -> None:
    from regard.corpora import load as corpus
    from regard.cost.hardware import processor

    print(processor())
    if run is None:
        run = Path("runs/benchmark-serve")
        if not (run / "summary.json").exists():
            limit = "training.time_limit=4m"
            command = [sys.executable, "-m", "regard", "train", "translate-transformer", limit, "-o", str(run)]
            subprocess.run(command, check=True)
    sentences = [pair.source for pair in corpus("pocket", "test")]
    command = [sys.executable, "-m", "regard", "serve", str(run), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr is not None
        try:
            port = int(service.stderr.readline().split("/")[2].rpartition(":")[2])
            asyncio.run(load(port, 1, 1.0, sentences))  # warm
            one = report("one at a time", *asyncio.run(load(port, 1, alone, sentences)))
            before, used = batches(port), processor_seconds(service.pid)
            seen, failed, taken = asyncio.run(load(port, clients, seconds, sentences))
            many = report(f"{clients} clients", seen, failed, taken)
            used = processor_seconds(service.pid) - used
            print(f"{len(seen) / (batches(port) - before):.1f} requests in a batch, from its first to its last")
            print(f"{1000 * used / len(seen):.1f} ms of processor time a request")
        finally:
            service.terminate()
    print(f"{many / one:.1f} times the throughput: {'pass' if many >= 4 * one and not failed else 'FAIL'}")
    if many < 4 * one or failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
