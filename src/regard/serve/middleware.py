"""What stands before every request: the key, how much is sent and how slowly, and the headers of every answer.

Plain ASGI, since it has to see the body before anybody parses it.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from regard.serve.error_responses import RefusedError, answer
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

log = logging.getLogger("regard.serve")
DRAINED = 1 << 25  # bytes read and dropped of a body that is too large, so that its sender gets to read the answer
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
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
    """`known`: the paths that metrics tell apart."""

    def __init__(self, app: Any, limits: Limits, metrics: Metrics, known: Collection[str]) -> None:
        self._app, self._limits, self._metrics, self._known = app, limits, metrics, known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started, status = time.perf_counter(), None

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        try:
            self._require_key(scope)
            body = await self._body(scope, receive)
            await self._app(scope, _replayed(body, receive), send_with_headers)
        except RefusedError as error:
            await answer(error)(scope, receive, send_with_headers)
        except _ClientLeftError:
            status = 499
        except Exception:
            log.exception("a request failed")
            if status is None:
                error = RefusedError(500, "this is a fault of the service: its log says more")
                await answer(error)(scope, receive, send_with_headers)
        finally:
            path = scope["path"] if scope["path"] in self._known else "other"
            self._metrics.request(path, status or 500, time.perf_counter() - started)

    def _require_key(self, scope: Scope) -> None:
        """The key, where one is asked for."""
        headers = dict(scope["headers"])
        key, path = self._limits.api_key, scope["path"]
        if key is not None and (path.startswith("/api/") or path == "/metrics"):
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            if kind.lower() != b"bearer" or not hmac.compare_digest(given.strip(), key.encode()):
                raise RefusedError(
                    401, "this service asks for its key: send the header 'Authorization: Bearer KEY'",
                    **{"www-authenticate": "Bearer"},
                )  # fmt: skip

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        limit = self._limits.max_upload if scope["path"] == "/api/upload" else self._limits.max_body
        too_large = RefusedError(413, f"this request may have {limit} bytes at most: send less")
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit() and int(told[:20]) > DRAINED:
            raise too_large
        try:
            async with asyncio.timeout(self._limits.timeout):
                body = await _read(receive, limit)
        except TimeoutError:
            raise RefusedError(408, f"the request did not arrive within {self._limits.timeout:g} seconds") from None
        if body is None:
            raise too_large
        return body


class _ClientLeftError(Exception):
    """The client has left."""


async def _read(receive: Receive, limit: int) -> bytes | None:
    """The whole body; None if it is larger than the limit."""
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


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message, and after it whatever the server says."""
    first = True

    async def replay() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replay
