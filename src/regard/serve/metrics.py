"""Counters in the text format of Prometheus (version 0.0.4)."""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
HELP = {
    "regard_requests_total": ("counter", "Requests answered, by path and status."),
    "regard_request_seconds": ("histogram", "Seconds from the first byte of a request to the last of its answer."),
    "regard_batches_total": ("counter", "Calls of a model."),
    "regard_batch_requests_total": ("counter", "Requests that these calls answered."),
    "regard_batch_inputs_total": ("counter", "Inputs in these calls."),
    "regard_batch_seconds_total": ("counter", "Seconds that a model was busy."),
    "regard_queue_length": ("gauge", "Requests that wait for a model."),
}
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Written to from the event loop and from the thread of every model."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: Counter[tuple[str, Labels]] = Counter()

    def request(self, path: str, status: int, seconds: float) -> None:
        with self._lock:
            self._values["regard_requests_total", (("path", path), ("status", str(status)))] += 1
            for bound in (*map(str, (b for b in BUCKETS if seconds <= b)), "+Inf"):
                self._values["regard_request_seconds_bucket", (("path", path), ("le", bound))] += 1
            self._add("regard_request_seconds_sum", (("path", path),), seconds)
            self._add("regard_request_seconds_count", (("path", path),), 1)

    def batch(self, model: str, requests: int, inputs: int, seconds: float) -> None:
        labels = (("model", model),)
        with self._lock:
            self._add("regard_batches_total", labels, 1)
            self._add("regard_batch_requests_total", labels, requests)
            self._add("regard_batch_inputs_total", labels, inputs)
            self._add("regard_batch_seconds_total", labels, seconds)

    def text(self, queues: Mapping[str, int]) -> str:
        with self._lock:
            values = dict(self._values)
        for model, length in queues.items():
            values["regard_queue_length", (("model", model),)] = length
        return "\n".join(_lines(values)) + "\n"

    def _add(self, name: str, labels: Labels, amount: float) -> None:
        self._values[name, labels] += amount  # pyright: ignore[reportArgumentType]  (a Counter may count in floats)


def _lines(values: Mapping[tuple[str, Labels], float]) -> Iterable[str]:
    for name, (kind, help_text) in HELP.items():
        yield f"# HELP {name} {help_text}"
        yield f"# TYPE {name} {kind}"
        for (series, labels), value in values.items():
            if series == name or series.removeprefix(name) in ("_bucket", "_sum", "_count"):
                pairs = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
                yield f"{series}{{{pairs}}} {value:.10g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
