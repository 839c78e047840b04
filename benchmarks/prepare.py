"""Time and peak memory of preparing data, at 1× and 10× the pairs, each in a new process.

    python benchmarks/prepare.py [--pairs 100000] [--kind bpe] [--repeats 3]

The pairs are generated: a vocabulary that follows Zipf's law, and sentences of 3 to 40 words. The best of the repeats
counts; the sizes take turns. Pass: ten times the pairs take at most eleven times the time and at most a tenth more
memory.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np

from regard.cost.hardware import processor


def write_pairs(path: Path, pairs: int, seed: int = 7) -> None:
    """Pairs of sentences over 50,000 words, written a few thousand at a time."""
    chance = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlcumwfgypbvk"))
    words = np.array(["".join(chance.choice(letters, size)) for size in chance.integers(2, 10, 50_000)])
    share = 1 / np.arange(1, len(words) + 1)
    share /= share.sum()
    with path.open("w") as file:
        for start in range(0, pairs, 5000):
            lengths = chance.integers(3, 41, (min(5000, pairs - start), 2))
            drawn = iter(words[chance.choice(len(words), lengths.sum(), p=share)])
            for source, target in lengths:
                sides = (" ".join(next(drawn) for _ in range(size)) for size in (source, target))
                file.write("\t".join(sides) + ".\n")


def prepare_once(path: Path, kind: str) -> None:
    """In a process of its own: prepare, and print seconds and megabytes."""
    from regard import config
    from regard.job import make_job

    job = make_job(config.read("translate-recurrent", {"data": {"train": str(path), "tokenizer": {"kind": kind}}}))
    with tempfile.TemporaryDirectory() as cache:
        start, used = time.perf_counter(), time.process_time()
        job.prepare(Path(cache))
        seconds, used = time.perf_counter() - start, time.process_time() - used
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pairs = sum(map(len, job.splits.values()))
    print(json.dumps({"pairs": pairs, "seconds": seconds, "processor": used, "megabytes": memory}))


@click.command(context_settings={"show_default": True})
@click.option("--pairs", default=100_000, help="pairs at 1×")
@click.option("--kind", default="bpe", help="kind of tokenizer")
@click.option("--repeats", default=3, help="how often each size is measured")
@click.option("--once", type=click.Path(path_type=Path), hidden=True)
def main(pairs: int, kind: str, repeats: int, once: Path | None) -> None:
    if once is not None:
        prepare_once(once, kind)
        return
    print(processor())
    with tempfile.TemporaryDirectory() as folder:
        files = {size: Path(folder) / f"{size}.tsv" for size in (1, 10)}
        for size, path in files.items():
            write_pairs(path, pairs * size)
        runs: dict[int, list[dict[str, float]]] = {size: [] for size in files}
        for _ in range(repeats):
            for size, path in files.items():
                command = [sys.executable, __file__, "--once", str(path), "--kind", kind]
                runs[size].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    best = {size: {name: min(run[name] for run in some) for name in some[0]} for size, some in runs.items()}
    for size, figures in best.items():
        print(
            f"{size:3}×  {figures['pairs']:>11,.0f} pairs  {figures['seconds']:8.2f} s  "
            f"({figures['processor']:.2f} s of processor)  {figures['megabytes']:6.0f} MB"
        )
    ratio = {name: best[10][name] / best[1][name] for name in ("seconds", "processor", "megabytes")}
    print(
        f"10× takes {ratio['seconds']:.2f}× the time ({ratio['processor']:.2f}× the time of processors, which other "
        f"programs disturb less) and {ratio['megabytes']:.2f}× the memory"
    )
    sys.exit(0 if ratio["seconds"] <= 11 and ratio["megabytes"] <= 1.1 else 1)


if __name__ == "__main__":
    main()
