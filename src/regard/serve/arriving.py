"""Limits on request bodies in memory: total bytes, and concurrent uploads."""

from collections.abc import Iterator
from contextlib import contextmanager

from regard.serve.error_responses import RefusedError
from regard.serve.limits import Limits

UPLOAD = "/api/upload"


class Arriving:
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
