"""A file that takes hours to write, and can be resumed.

    NAME.part        what is written so far
    NAME.part.json   the number of inputs, the number of bytes, and the key of the job
    NAME             the complete file

The state is written after each piece. Bytes beyond it in NAME.part, such as half a line after a crash, are cut off.
Another key starts again from the beginning.
"""

import json
import os
from pathlib import Path
from typing import Any

from regard.files import atomic


class ResumableFile:
    """A resumable file. `done` is the number of inputs that earlier calls have written. Without a key, nothing is
    resumed."""

    def __init__(self, path: Path, key: Any = None) -> None:
        self.path, self.key, self.done = path, json.loads(json.dumps(key)), 0
        place = path.resolve()
        self._place = place
        self._grows = not place.exists() or place.is_file()  # special files (/dev/null, pipes) are written to directly
        self._part = atomic.part_of(place) if self._grows else place
        self._state = self._part.with_name(self._part.name + ".json")
        with atomic.explained(path):
            self._size = self._resume() if self._grows else 0
            self._file = self._part.open("r+b" if self._size else "wb")
            if self._size:
                self._file.truncate(self._size)
                self._file.seek(self._size)

    def _resume(self) -> int:
        """Set `done`, and return the number of bytes to keep from an earlier call."""
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
            size, done, key = state["bytes"], state["inputs"], state["key"]
            if self.key is None or key != self.key or self._part.stat().st_size < size:
                return 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0
        self.done = done
        return size

    @property
    def empty(self) -> bool:
        """Return whether nothing is written yet."""
        return self._size == 0

    def write(self, text: str, inputs: int) -> None:
        """Append the output for the next `inputs`."""
        with atomic.explained(self.path):
            self._size += self._file.write(text.encode())
            self._file.flush()
            self.done += inputs
            if self._grows and self.key is not None:
                os.fsync(self._file.fileno())
                state = {"inputs": self.done, "bytes": self._size, "key": self.key}
                atomic.write_text(self._state, json.dumps(state, ensure_ascii=False))

    def finish(self) -> None:
        """Rename the complete file to its final name."""
        with atomic.explained(self.path):
            self._file.close()
            if self._grows:
                atomic.flush(self._part)
                os.replace(self._part, self._place)
                atomic.flush(self._place.parent)
                self._state.unlink(missing_ok=True)

    def leave(self) -> None:
        """Close an incomplete file; keep it if a later call can resume it."""
        self._file.close()
        if self._grows and (self.key is None or not self.done):
            self._part.unlink(missing_ok=True)
            self._state.unlink(missing_ok=True)
