"""Decoding in separate processes: it uses all cores, and a file that crashes a decoder does not end the program.

A worker is `python -m regard.inputs.image.worker`: it reads a line of JSON for each group of files and writes, for
each file, a line of JSON and the pixels. (Not `multiprocessing`: its processes would import the user's script again,
which must then be written for it; and a process that dies would hang the pool.)

    → {"form": {...}, "files": [["photo.jpg", 0, null], ["images.tar", 1536, 20480]]}     name, first byte, how many
    ← {"notes": ["..."], "seen": "640×480 color"} and C·H·W bytes      or      {"error": "..."}
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from threading import local
from typing import Any, BinaryIO

import numpy as np

from regard.inputs.image.decode import BadPictureError, Decoded, Form, decode
from regard.inputs.media_files import Bytes

GROUP = 16  # files in one request
AHEAD = 3  # pending groups for each worker


def decode_all(files: Sequence[Bytes], form: Form, workers: int = 0) -> Iterator[Decoded | BadPictureError]:
    """Decode pictures, in the order of the files. `workers=0`: one for each core, and none for a few files."""
    groups = [files[start : start + GROUP] for start in range(0, len(files), GROUP)]
    workers = min(workers or os.cpu_count() or 1, len(groups))
    if len(groups) <= 2 or workers < 1:
        yield from (_decoded(file, form) for file in files)
        return
    started: list[_Worker] = []
    mine = local()

    def work(group: Sequence[Bytes]) -> list[Decoded | BadPictureError]:
        if not hasattr(mine, "worker"):
            mine.worker = _Worker(form)
            started.append(mine.worker)
        return mine.worker.decode(group)

    with ThreadPoolExecutor(workers) as pool:  # a thread only waits for its process
        try:
            coming, rest = [], iter(groups)
            for group in rest:
                coming.append(pool.submit(work, group))
                if len(coming) >= workers * AHEAD:
                    yield from coming.pop(0).result()
            for future in coming:
                yield from future.result()
        finally:
            pool.shutdown(cancel_futures=True)
            for worker in started:
                worker.stop()


def _decoded(file: Bytes, form: Form) -> Decoded | BadPictureError:
    try:
        return decode(file.read(), form, file.name or file.path)
    except BadPictureError as problem:
        return problem
    except OSError as problem:
        return BadPictureError(f"cannot be read: {problem.strerror or problem}")


class _Worker:
    """Worker process. It is restarted after a crash; a file on which it crashes twice is bad."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._process: subprocess.Popen[bytes] | None = None

    def decode(self, group: Sequence[Bytes]) -> list[Decoded | BadPictureError]:
        found: list[Decoded | BadPictureError] = []
        crashed_on = -1
        while len(found) < len(group):
            try:
                for one in self._ask(group[len(found) :]):
                    found.append(one)
            except (OSError, EOFError, ValueError):
                self.stop()
                if crashed_on == len(found):
                    found.append(BadPictureError("the decoder crashed on it"))
                crashed_on = len(found)
        return found

    def _ask(self, group: Sequence[Bytes]) -> Iterator[Decoded | BadPictureError]:
        if self._process is None:
            command = [sys.executable, "-m", "regard.inputs.image.worker"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        wanted, answers = self._process.stdin, self._process.stdout
        assert wanted is not None and answers is not None  # noqa: PT018 (for the type checker)
        wanted.write(json.dumps({"form": asdict(self._form), "files": group}).encode() + b"\n")
        wanted.flush()
        size = int(np.prod(self._form.shape))
        for _ in group:
            line = answers.readline()
            if not line:
                raise EOFError
            answer = json.loads(line)
            if "error" in answer:
                yield BadPictureError(answer["error"])
                continue
            pixels = answers.read(size)
            if len(pixels) < size:
                raise EOFError
            yield Decoded(
                np.frombuffer(pixels, np.uint8).reshape(self._form.shape), tuple(answer["notes"]), answer["seen"]
            )

    def stop(self) -> None:
        if self._process is not None:
            with suppress(OSError):
                self._process.kill()
            self._process.communicate()
            self._process = None


def serve(wanted: BinaryIO, answers: BinaryIO) -> None:
    """Main loop of a worker, until its input ends."""
    for line in wanted:
        asked: dict[str, Any] = json.loads(line)
        form = Form(**asked["form"])
        for file in asked["files"]:
            found = _decoded(Bytes(*file), form)
            if isinstance(found, BadPictureError):
                answers.write(json.dumps({"error": str(found)}).encode() + b"\n")
            else:
                answers.write(json.dumps({"notes": found.notes, "seen": found.seen}).encode() + b"\n")
                answers.write(found.pixels.tobytes())
            answers.flush()  # the next file may crash the decoder


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
