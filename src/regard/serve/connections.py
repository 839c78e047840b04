"""Limits on idle and slow connections: those that send no request, send its head slowly, or do not read the response.
uvicorn limits only the first, and only after a response; here all are limited.

Slow bodies are handled by `middleware`, which reads them.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serve.limits import Limits

SLOWEST = 1024  # bytes per second that a client has to read
TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 3\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedConnection(H11Protocol):
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
