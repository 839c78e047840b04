"""Connections that cost something while nothing happens: they wait with no request, send its head drop by drop, or do
not read their answer. uvicorn bounds the first of these only after an answer; here all of them are bounded.

How slowly a body may come is the business of `middleware`, which reads it.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.serve.limits import Limits

SLOWEST = 1024  # bytes a second that a client has to read
TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 3\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedConnection(H11Protocol):
    def __init__(self, *args: Any, limits: Limits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._until_head: asyncio.TimerHandle | None = None  # the whole head of a request has to be here by then
        self._until_read: asyncio.TimerHandle | None = None  # some more of an answer has to be read by then

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
        """The clock runs from the end of the last answer until the next request has its head, however it comes."""
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
