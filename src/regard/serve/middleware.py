"""Checks before every request: the key, the size and speed of the body; and the headers of every response.

Plain ASGI, because it has to see the body before it is parsed.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from regard.serve.arriving import Arriving
from regard.serve.error_responses import RefusedError, answer
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics

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
        self, app: Any, limits: Limits, metrics: Metrics, known: Collection[str], stopping: Callable[[], bool]
    ) -> None:
        self._app, self._limits, self._metrics, self._known = app, limits, metrics, known
        self._stopping, self._arriving = stopping, Arriving(limits)

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


def has_key(key: str | None, given: bytes) -> bool:
    """Return whether the key was sent, or none is needed."""
    return key is None or hmac.compare_digest(given, key.encode())


def require_key(key: str | None, given: bytes) -> None:
    if not has_key(key, given):
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
