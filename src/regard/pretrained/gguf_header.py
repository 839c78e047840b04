"""The header of a GGUF file, checked before use: all counts have to fit into the file.

    "GGUF", version, tensors, fields;   a field: name, type, value;   a tensor: name, dimensions, type, place

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import struct
from pathlib import Path
from typing import BinaryIO

from regard.errors import RegardError

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of a number, by its type
STRING, ARRAY = 8, 9
DIMENSIONS = 4  # at most


def require_plausible(file: Path) -> None:
    with file.open("rb") as handle:
        head = _Head(handle, file)
        if handle.read(4) != b"GGUF":
            raise RegardError(f"{file} is not a GGUF file")
        head.number("I")
        tensors, fields = head.number("Q"), head.number("Q")
        for _ in range(fields):
            head.skip(head.number("Q"))
            head.skip_value(head.number("I"))
        for _ in range(tensors):
            head.skip(head.number("Q"))
            dimensions = head.number("I")
            if dimensions > DIMENSIONS:
                raise RegardError(f"{file} is damaged: a tensor with {dimensions:,} dimensions")
            head.skip(8 * dimensions + 4 + 8)


class _Head:
    def __init__(self, handle: BinaryIO, file: Path) -> None:
        self._handle, self._file, self._size = handle, file, file.stat().st_size

    def number(self, form: str) -> int:
        size = struct.calcsize(form)
        found = self._handle.read(size)
        if len(found) < size:
            raise self._cut_short()
        return struct.unpack(f"<{form}", found)[0]

    def skip(self, count: int) -> None:
        if count > self._size - self._handle.tell():
            raise self._cut_short()
        self._handle.seek(count, 1)

    def skip_value(self, kind: int) -> None:
        if kind == STRING:
            self.skip(self.number("Q"))
        elif kind == ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner == STRING:
                for _ in range(count):
                    self.skip(self.number("Q"))
            else:
                self.skip(count * self._bytes(inner))
        else:
            self.skip(self._bytes(kind))

    def _bytes(self, kind: int) -> int:
        if kind not in SIZES:
            raise RegardError(f"{self._file} is damaged: there is no type {kind}")
        return SIZES[kind]

    def _cut_short(self) -> RegardError:
        return RegardError(f"{self._file} cannot be read: its head promises more than the file holds")
