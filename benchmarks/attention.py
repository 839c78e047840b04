"""Time and peak memory of attention with every score, forward and backward.

    python benchmarks/attention.py --sizes 128,512,2048 --width 256
    python benchmarks/attention.py --scores additive --sizes 2048 --json

Compared, for each score and each Q = K = n, with the same inputs, in float32:

regard   the fused or streaming kernel, without weights
traced   regard with weights
plain    the equation as it is written down, in torch
torch    scaled_dot_product_attention and nn.MultiheadAttention, for the scores that they have; queries and keys get
         gradients, as in regard

Each measurement is a new process, forked before torch has computed anything. Peak memory is the growth of the process
beyond its inputs (ru_maxrss: all pages that were touched). The ways take turns, and the median of the rounds counts. A
case that needs more memory than is free is skipped, and the table says so.
"""

import argparse
import json
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Additive, Bilinear, Concat, Cosine, Dot, MultiHead, ScaledDot, Score, attend
from regard.cost.hardware import processor

HEADS = 8
SCORES: dict[str, Callable[[int], Score]] = {
    "dot": lambda width: Dot(),
    "scaled_dot": lambda width: ScaledDot(),
    "bilinear": lambda width: Bilinear(width, width),
    "cosine": lambda width: Cosine(),
    "additive": lambda width: Additive(width, width, width),
    "concat": lambda width: Concat(width, width, width),
}
WAYS = ("regard", "traced", "plain")


class Case(NamedTuple):
    """One line of the table: a score (or a module of several heads) and a way to compute it."""

    score: str
    way: str

    def build(self, width: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        if self == ("multihead", "torch"):
            module = nn.MultiheadAttention(width, HEADS, batch_first=True)
            return lambda q, k, v: module(q, k, k, need_weights=False)[0]
        if self == ("multihead", "regard"):
            ours = MultiHead(width, HEADS)
            return lambda q, k, v: ours(q, k)
        if self == ("scaled_dot", "torch"):
            return lambda q, k, v: F.scaled_dot_product_attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1))
        score = SCORES[self.score](width)
        if self.way == "plain":
            return lambda q, k, v: score(q, k).softmax(-1) @ v
        return lambda q, k, v: attend(score, q, k, v, need_weights=self.way == "traced", check_finite=False)[0]

    def bytes_needed(self, n: int, width: int) -> int:
        """A rough guess, from above, of what the tables take that are alive at once in the backward pass."""
        if self.way in ("regard", "torch"):
            return 40 * n * width * 4 + 2**26
        if self.score == "concat" and self.way == "plain":
            return 6 * n * n * width * 4
        if self.score in ("additive", "concat"):
            return 3 * n * n * width * 4
        return 6 * n * n * 4


def cases(scores: list[str]) -> list[Case]:
    found = [Case(score, way) for score in scores for way in WAYS]
    if "scaled_dot" in scores:
        found += [Case("scaled_dot", "torch"), Case("multihead", "regard"), Case("multihead", "torch")]
    return found


def measure(case: Case, n: int, width: int, threads: int) -> tuple[float, float]:
    """Seconds and megabytes of one forward and backward pass, in a process of its own."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    child = fork.Process(target=_work, args=(case, n, width, threads, theirs))
    child.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        raise SystemExit(f"{case.score} {case.way} n={n}: the process died, most likely for lack of memory") from None
    finally:
        child.join()


def _work(case: Case, n: int, width: int, threads: int, answer) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    run = case.build(width)
    small = [torch.randn(1, 32, width, requires_grad=True) for _ in range(3)]
    run(*small).sum().backward()  # libraries load, kernels are chosen
    inputs = [torch.randn(1, n, width, requires_grad=True) for _ in range(3)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds: list[float] = []
    while not seconds or (sum(seconds) < 0.2 and len(seconds) < 50):  # what is over at once is measured several times
        start = time.perf_counter()
        run(*inputs).sum().backward()
        seconds.append(time.perf_counter() - start)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    answer.send((statistics.median(seconds), grown / 1024))


def free_bytes() -> int:
    """What the machine can still give without swapping."""
    try:
        with open("/proc/meminfo") as info:
            fields = dict(line.split(":") for line in info)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def benchmark(
    scores: list[str], sizes: list[int], width: int, rounds: int, threads: int, patience: float
) -> list[dict]:
    rows = []
    for n in sizes:
        todo = []
        for case in cases(scores):
            needed, free = case.bytes_needed(n, width), free_bytes()
            row = {"n": n, "width": width, "score": case.score, "way": case.way}
            rows.append(row)
            if needed > 0.9 * free:
                row["skipped"] = f"needs about {needed / 1e9:.0f} GB, {free / 1e9:.0f} GB are free"
            else:
                todo.append((case, row, []))
        for _ in range(rounds):
            for case, _, results in todo:
                if sum(seconds for seconds, _ in results) < patience:
                    results.append(measure(case, n, width, threads))
        for _, row, results in todo:
            row["seconds"] = statistics.median(seconds for seconds, _ in results)
            row["megabytes"] = statistics.median(megabytes for _, megabytes in results)
            row["rounds"] = len(results)
        print(f"n={n} done", file=sys.stderr)
    return rows


def show(rows: list[dict]) -> None:
    plain = {(row["n"], row["score"]): row for row in rows if row["way"] == "plain" and "seconds" in row}
    print(f"{'n':>6} {'score':<11} {'way':<7} {'ms':>10} {'MB':>9}   {'time':>6} {'memory':>7}  (of plain)")
    for row in rows:
        line = f"{row['n']:>6} {row['score']:<11} {row['way']:<7} "
        if "skipped" in row:
            print(line + f"skipped: {row['skipped']}")
            continue
        line += f"{1000 * row['seconds']:>10.1f} {row['megabytes']:>9.1f}"
        base = plain.get((row["n"], row["score"]))
        if base is not None:
            memory = f"{row['megabytes'] / base['megabytes']:>7.3f}" if base["megabytes"] else f"{'-':>7}"
            line += f"   {row['seconds'] / base['seconds']:>6.2f} {memory}"
        print(line)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="128,256,512,1024,2048,4096,8192", help="Q = K, with commas")
    parser.add_argument("--scores", default=",".join(SCORES), help="which scores, with commas")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5, help="the median of so many measurements counts")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--patience", type=float, default=30.0, help="seconds after which a case is not repeated")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    options = parser.parse_args(arguments)
    scores, sizes = options.scores.split(","), [int(n) for n in options.sizes.split(",")]
    if unknown := [name for name in scores if name not in SCORES]:
        parser.error(f"--scores: {', '.join(unknown)} unknown; choose from {', '.join(SCORES)}")
    rows = benchmark(scores, sizes, options.width, options.rounds, options.threads, options.patience)
    if options.json:
        machine = {"torch": torch.__version__, "processor": processor(), "threads": options.threads}
        print(json.dumps({**machine, "rows": rows}, indent=2))
    else:
        print(processor())
        show(rows)


if __name__ == "__main__":
    main()
