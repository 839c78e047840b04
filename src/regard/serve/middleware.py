"""Checks before every request: the key, the size and speed of the body; and the headers of every response.

Plain ASGI, because it has to see the body before it is parsed.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serve.errors import Limits, RefusedError, answer

SLOWEST = 1024  # bytes per second that a client has to read
TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 3\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedConnection(H11Protocol):
    """Limits on idle and slow connections: those that send no request, send its head slowly, or do not read the
    response. uvicorn limits only the first, and only after a response; here all are limited.

    Slow bodies are handled by `middleware`, which reads them.
    """

    def __init__(self, *args: Any, limits: Limits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._until_head: asyncio.TimerHandle | None = None  # deadline for the whole head of a request
        self._until_read: asyncio.TimerHandle | None = None  # deadline for reading more of a response

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._limits.max_connections:
            self._end(TOO_MANY)
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._until_head, self._until_read):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._until_read is not None:
            self._until_read.cancel()

    def _watch(self) -> None:
        """Start the timer at the end of the last response; it runs until the head of the next request is complete."""
        if self.cycle is not None and not self.cycle.response_complete:
            if self._until_head is not None:
                self._until_head.cancel()
                self._until_head = None
        elif self._until_head is None and not self.transport.is_closing():
            self._until_head = self.loop.call_later(self._limits.idle_timeout, self._head_is_late)

    def _head_is_late(self) -> None:
        self._until_head = None
        begun = bool(self.conn.trailing_data[0])
        self._end(TOO_LATE if begun else b"")

    def _end(self, words: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(words)
            self.transport.close()

    def _watch_reader(self) -> None:
        left, seconds = self.transport.get_write_buffer_size(), self._limits.idle_timeout

        def check() -> None:
            if left - self.transport.get_write_buffer_size() < SLOWEST * seconds:
                self.transport.abort()
            else:
                self._watch_reader()

        self._until_read = self.loop.call_later(seconds, check)


# Limits on request bodies in memory: total bytes, and concurrent uploads.

UPLOAD = "/api/upload"


class BodyQuota:
    """Limits on concurrent bodies. Use it from the event loop only."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held = self._uploads = 0

    def limit(self, path: str) -> int:
        return self._limits.max_upload if path == UPLOAD else self._limits.max_body

    @contextmanager
    def room(self, path: str, size: int | None) -> Iterator[None]:
        """Reserve memory for a body of this size, or of the largest if unknown; raise 503 if there is none."""
        limit = self.limit(path)
        size, upload = limit if size is None else min(size, limit), path == UPLOAD
        if self._held + size > self._limits.max_held or (upload and self._uploads >= self._limits.max_uploads):
            sentence = "too much data is being sent to this service: try again in a few seconds"
            raise RefusedError(503, sentence, **{"retry-after": "3", "connection": "close"})
        self._held, self._uploads = self._held + size, self._uploads + upload
        try:
            yield
        finally:
            self._held, self._uploads = self._held - size, self._uploads - upload


# Metrics for Prometheus.

CONTENT_TYPE = CONTENT_TYPE_LATEST
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds


class ServiceMetrics:
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


Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

log = logging.getLogger("regard.serve")
DRAINED = 1 << 25  # bytes of a too large body that are read and dropped, so that its sender can read the response
KEYED = ("/metrics",)  # /translate and /languages take the key in other places, too
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "media-src blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": POLICY,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=(self)",
        "cache-control": "no-store",
    }.items()
]


class RequestMiddleware:
    """ASGI middleware. `known`: paths with their own metrics; `stopping`: whether the service is about to stop."""

    def __init__(
        self, app: Any, limits: Limits, metrics: ServiceMetrics, known: Collection[str], stopping: Callable[[], bool]
    ) -> None:
        self._app, self._limits, self._metrics, self._known = app, limits, metrics, known
        self._stopping, self._arriving = stopping, BodyQuota(limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started, status = time.perf_counter(), None

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                last = [(b"connection", b"close")] if self._stopping() else []
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS, *last]}
            await send(message)

        try:
            self._require_key(scope)
            with self._arriving.room(scope["path"], _told_length(scope)):
                body = await self._body(scope, receive)
                await _while_client_waits(self._app, scope, body, receive, send_with_headers)
        except RefusedError as error:
            await answer(error, scope["path"])(scope, receive, send_with_headers)
        except _ClientLeftError:
            status = 499
        except Exception:
            log.exception("a request failed")
            if status is None:
                error = RefusedError(500, "internal error of the service: see its log")
                await answer(error, scope["path"])(scope, receive, send_with_headers)
        finally:
            path = scope["path"] if scope["path"] in self._known else "other"
            self._metrics.request(path, status or 500, time.perf_counter() - started)

    def _require_key(self, scope: Scope) -> None:
        """Require the key on paths that need it."""
        headers = dict(scope["headers"])
        path = scope["path"]
        if path.startswith(("/api/", "/v1/")) or path in KEYED:
            require_key(self._limits.api_key, bearer(headers.get(b"authorization", b"")))

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        limit = self._arriving.limit(scope["path"])
        too_large = RefusedError(413, f"this request may have at most {limit} bytes: send less")
        if (_told_length(scope) or 0) > DRAINED:
            raise too_large
        try:
            async with asyncio.timeout(self._limits.timeout):
                body = await _read(receive, limit)
        except TimeoutError:
            raise RefusedError(408, f"the request did not arrive within {self._limits.timeout:g} seconds") from None
        if body is None:
            raise too_large
        return body


def bearer(header: bytes) -> bytes:
    """Return the key of a header `Authorization: Bearer KEY`."""
    kind, _, given = header.partition(b" ")
    return given.strip() if kind.lower() == b"bearer" else b""


def has_key(key: str | None, body: bytes) -> bool:
    """Return whether the key was sent, or none is needed."""
    return key is None or hmac.compare_digest(body, key.encode())


def require_key(key: str | None, body: bytes) -> None:
    if not has_key(key, body):
        raise RefusedError(
            401, "this service requires a key: send the header 'Authorization: Bearer KEY'",
            **{"www-authenticate": "Bearer"},
        )  # fmt: skip


class _ClientLeftError(Exception):
    """The client has left."""


def _told_length(scope: Scope) -> int | None:
    """Return the announced length of the body, 0 if there is none, None if unknown."""
    headers = dict(scope["headers"])
    told = headers.get(b"content-length", b"")
    if told.isdigit():
        return int(told[:20])
    return None if b"transfer-encoding" in headers else 0


async def _read(receive: Receive, limit: int) -> bytes | None:
    """Return the whole body, or None if it is larger than the limit."""
    parts, size, more = [], 0, True
    while more and size <= DRAINED:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientLeftError
        size += len(message.get("body", b""))
        if size <= limit:
            parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts) if size <= limit else None


async def _while_client_waits(app: Any, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
    """Answer a request; if the client disconnects, cancel the model's work."""
    left = asyncio.create_task(_until_left(receive))
    first = True

    async def replay() -> Message:
        """Return the body as one message, then the server's further messages."""
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await asyncio.shield(left)

    answering = asyncio.create_task(app(scope, replay, send))
    try:
        await asyncio.wait((answering, left), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            answering.cancel()
            await asyncio.wait((answering,))
            raise _ClientLeftError
        answering.result()
    finally:
        answering.cancel()
        left.cancel()


async def _until_left(receive: Receive) -> Message:
    while (message := await receive())["type"] != "http.disconnect":
        pass
    return message
