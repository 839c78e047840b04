"""The HTTP server: bounded connections and a graceful shutdown.

On shutdown it accepts no new connections except those already queued by the system. It answers requests in progress
with a header that closes the connection, and then ends.
"""

import asyncio
import socket
import time
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI

from regard.serve.errors import Limits
from regard.serve.middleware import BoundedConnection

GRACE = 1.0  # seconds in which connected clients may still send requests


class Server(uvicorn.Server):
    """`uvicorn.Server` for an application of `create_app`: `run(sockets=[listen(host, port)])`, until stopped."""

    def __init__(self, app: FastAPI, limits: Limits) -> None:
        super().__init__(
            uvicorn.Config(
                app, log_level="warning", access_log=False, server_header=False, ws="none",
                http=partial(BoundedConnection, limits=limits),  # pyright: ignore[reportArgumentType]
                timeout_graceful_shutdown=int(limits.timeout) + 1,
            )
        )  # fmt: skip
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.state.service.stopping = True
        waiting = [one for place in sockets or [] for one in pending_connections(place)]
        for server in self.servers:
            server.close()
        for one in waiting:
            await asyncio.get_running_loop().connect_accepted_socket(self._protocol, one)
        until = time.monotonic() + GRACE
        while self.server_state.connections and time.monotonic() < until and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)

    def _protocol(self) -> Any:
        made: Any = self.config.http_protocol_class
        return made(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)


def pending_connections(place: socket.socket) -> list[socket.socket]:
    """Return connections in the system's queue: closing the socket would reset them."""
    found = []
    place.setblocking(False)
    with suppress(OSError):  # no more connections
        while True:
            one, _ = place.accept()
            one.setblocking(False)
            found.append(one)
    return found
