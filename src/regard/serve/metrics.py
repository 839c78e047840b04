"""Metrics for Prometheus."""

from collections.abc import Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = CONTENT_TYPE_LATEST
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds


class Metrics:
    """Metrics of one service, updated from the event loop and every model's thread."""

    def __init__(self) -> None:
        self._registry = of = CollectorRegistry()
        self._requests = Counter("regard_requests", "Requests answered.", ["path", "status"], registry=of)
        self._seconds = Histogram(
            "regard_request_seconds", "Seconds from the first byte of a request to the last of its answer.", ["path"],
            buckets=BUCKETS, registry=of,
        )  # fmt: skip
        self._batches = Counter("regard_batches", "Calls of a model.", ["model"], registry=of)
        self._batched = Counter("regard_batch_requests", "Requests that these calls answered.", ["model"], registry=of)
        self._inputs = Counter("regard_batch_inputs", "Inputs in these calls.", ["model"], registry=of)
        self._busy = Counter("regard_batch_seconds", "Seconds that a model was busy.", ["model"], registry=of)
        self._queue = Gauge("regard_queue_length", "Requests that wait for a model.", ["model"], registry=of)

    def request(self, path: str, status: int, seconds: float) -> None:
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)

    def joined(self, model: str, requests: int, inputs: int) -> None:
        """Count requests that start a batch or join one."""
        self._batched.labels(model).inc(requests)
        self._inputs.labels(model).inc(inputs)

    def ended(self, model: str, seconds: float) -> None:
        """Count a batch that ended after this many seconds."""
        self._batches.labels(model).inc()
        self._busy.labels(model).inc(seconds)

    def text(self, queues: Mapping[str, int]) -> bytes:
        for model, length in queues.items():
            self._queue.labels(model).set(length)
        return generate_latest(self._registry)
