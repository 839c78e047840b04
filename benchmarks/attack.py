"""Load test of the service: minutes of mixed traffic, honest and hostile, and its memory before and after.

    python benchmarks/attack.py [--run runs/mine] [--seconds 300] [--clients 8]

Without --run, `translate-transformer` is trained for half a minute first, into runs/benchmark-attack. Each client is a
thread that sends one request after the other, sampled at random: predictions; looks with evidence, pages and pictures;
looks that cost more than a request may; requests whose client leaves after a moment; heads that arrive byte by byte;
bodies that are no JSON, too large, or full of odd numbers. The time-out of the service is 5 seconds.

Pass: every prediction is answered (or refused with the advice to retry), and of the other honest requests, which share
the model with the costly ones, 19 in 20; no request gives a 500; memory at the end is that after the first fifth,
within 32 MB.
"""

import http.client
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import click

WORDS = ["the", "red", "house", "is", "old", "and", "we", "see", "two", "small", "dogs", "in", "a", "green", "garden"]
HONEST = {200, 503}
TOLD = {200, 400, 404, 408, 413, 422, 503, 504}


def resident(process: int) -> float:
    """Megabytes."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


class Client:
    """One thing after another, until told to stop; what came of it is counted by kind and status."""

    def __init__(self, port: int, seed: int, seen: Counter[tuple[str, int]]) -> None:
        self.port, self.chance, self.seen = port, random.Random(seed), seen
        self.kinds = [
            (60, self.predict), (10, self.look), (8, self.page), (4, self.picture), (3, self.costly),
            (5, self.leaves), (1, self.drops), (5, self.nonsense), (1, self.large), (3, self.odd),
        ]  # fmt: skip

    def act(self) -> None:
        (act,) = self.chance.choices([kind for _, kind in self.kinds], [weight for weight, _ in self.kinds])
        try:
            status = act()
        except OSError:
            status = 0
        self.seen[act.__name__, status] += 1

    def text(self, words: int = 8) -> str:
        return " ".join(self.chance.choices(WORDS, k=self.chance.randint(1, words)))

    def post(self, path: str, body: object, *, raw: bytes | None = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            content = json.dumps(body).encode() if raw is None else raw
            connection.request("POST", path, content, {"content-type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def predict(self) -> int:
        return self.post("/api/predict", {"inputs": [self.text() for _ in range(self.chance.randint(1, 4))]})

    def look(self) -> int:
        return self.post("/api/look", {"text": self.text(), "evidence": True, "kind": "cross"})

    def page(self) -> int:
        return self.post("/api/page", {"text": self.text(), "part": self.chance.choice(["outline", "table", "maps"])})

    def picture(self) -> int:
        return self.post("/api/picture", {"text": self.text(), "format": "svg"})

    def costly(self) -> int:
        text = " ".join(self.chance.choices(WORDS, k=180))
        return self.post("/api/look", {"text": text, "output": text, "method": "leave-one-out", "evidence": True})

    def leaves(self) -> int:
        body = json.dumps({"text": self.text(180), "evidence": True}).encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as made:
            head = "POST /api/look HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            made.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            time.sleep(self.chance.random() / 5)
        return 200

    def drops(self) -> int:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as made:
            for byte in b"GET / HTTP/1.1\r\nHost: x":
                made.sendall(bytes([byte]))
                time.sleep(0.1)
        return 200

    def nonsense(self) -> int:
        return self.post("/api/predict", None, raw=self.chance.randbytes(self.chance.randint(0, 2000)))

    def large(self) -> int:
        return self.post("/api/predict", None, raw=b"x" * 4_000_000)

    def odd(self) -> int:
        number = self.chance.choice([1e-45, 1e-320, 1e308, -1, 2**63, 0.0])
        name = self.chance.choice(["temperature", "top_p", "top_k", "seed", "beam", "length_penalty", "max_length"])
        return self.post("/api/predict", {"inputs": [self.text()], "sample": True, name: number})


def attack(port: int, process: int, seconds: float, clients: int) -> tuple[Counter[tuple[str, int]], list[float]]:
    """What came of it, and the memory of the service five times on the way."""
    seen: Counter[tuple[str, int]] = Counter()
    end = threading.Event()

    def keep_on(seed: int) -> None:
        client = Client(port, seed, seen)
        while not end.is_set():
            client.act()

    threads = [threading.Thread(target=keep_on, args=(seed,), daemon=True) for seed in range(clients)]
    for thread in threads:
        thread.start()
    memory = []
    for _ in range(5):
        time.sleep(seconds / 5)
        memory.append(resident(process))
        print(f"{sum(seen.values()):6} requests, {memory[-1]:7.1f} MB", flush=True)
    end.set()
    for thread in threads:
        thread.join(60)
    return seen, memory


def failures(seen: Counter[tuple[str, int]], kinds: tuple[str, ...]) -> float:
    """The share of honest requests that got no answer."""
    asked = [(status, count) for (kind, status), count in seen.items() if kind in kinds]
    return sum(count for status, count in asked if status not in HONEST) / max(1, sum(count for _, count in asked))


@click.command(context_settings={"show_default": True})
@click.option("--run", type=click.Path(path_type=Path), help="a run to serve")
@click.option("--seconds", type=click.FloatRange(5, 3600), default=300.0, help="that it goes on")
@click.option("--clients", type=click.IntRange(1, 256), default=8, help="at once")
def main(run: Path | None, seconds: float, clients: int) -> None:
    if run is None:
        run = Path("runs/benchmark-attack")
        if not (run / "summary.json").exists():
            command = [sys.executable, "-m", "regard", "train", "translate-transformer", "training.time_limit=30s"]
            subprocess.run([*command, "-o", str(run)], check=True)
    command = [sys.executable, "-m", "regard", "serve", str(run), "--port", "0", "--timeout", "5"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr is not None
        try:
            port = int(service.stderr.readline().split("/")[2].rpartition(":")[2])
            print(f"at the start {resident(service.pid):7.1f} MB")
            seen, memory = attack(port, service.pid, seconds, clients)
        finally:
            service.terminate()
        code = service.wait(60)
    for (kind, status), count in sorted(seen.items()):
        print(f"{kind:10} {status or 'no answer':>9} {count:7}")
    faults = sum(n for (_, status), n in seen.items() if status not in TOLD)
    predictions, looks = (failures(seen, kinds) for kinds in (("predict",), ("look", "page", "picture")))
    grown = memory[-1] - memory[0]
    print(f"{sum(seen.values()) / seconds:.1f} requests/s, {faults} faults")
    print(f"failed: {predictions:.1%} of the predictions, {looks:.1%} of the honest looks")
    print(f"{grown:+.1f} MB between the first fifth and the end; ended with {code}")
    good = not faults and not predictions and looks < 0.05 and grown < 32
    print("pass" if good else "FAIL")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
