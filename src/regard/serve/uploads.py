"""Uploaded pictures, recordings and tables: checked, stored for a while under generated names, then deleted.

A client receives a name such as `upload:3f…` and uses it instead of a text. The name is a hash of the content, so that
the same content always has the same name and links stay valid. It is only looked up among known names and is never part
of a path.
"""

import csv
import hashlib
import io
import logging
import re
import secrets
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.data.formats import text_rows
from regard.data.labels import Example
from regard.errors import CallError
from regard.inputs.image.decode import at_once
from regard.look.axis import to_png

if TYPE_CHECKING:
    from regard.loading import AnyRun

KEPT, MOST = 600.0, 64  # seconds, and files
PIXELS = 50_000_000  # limit for a picture
SECONDS, SAMPLES = 300.0, 30_000_000  # limits for a recording, over all channels
PREFIX = "upload:"
WHAT = {"image": "picture", "sound": "recording", "table": "table"}
PICTURES = {"PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp", "GIF": ".gif", "BMP": ".bmp"}
SOUNDS = {"WAV": ".wav", "WAVEX": ".wav", "FLAC": ".flac", "OGG": ".ogg", "MP3": ".mp3", "AIFF": ".aiff"}


@dataclass(frozen=True)
class Upload:
    path: Path
    takes: str
    until: float


class Uploads:
    """The uploads of a service. Thread-safe."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="regard-uploads-")
        self._kept: OrderedDict[str, Upload] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, content: bytes, takes: str) -> str:
        """Store a file and return its name."""
        suffix = {"image": check_picture, "sound": check_sound, "table": check_table}[takes](content)
        name = PREFIX + hashlib.blake2b(content, digest_size=16, person=takes.encode()).hexdigest()
        path = Path(self._folder.name) / (secrets.token_hex(16) + suffix)
        path.write_bytes(content)
        with self._lock:
            if name in self._kept:
                self._remove(name)
            self._kept[name] = Upload(path, takes, time.monotonic() + KEPT)
            while len(self._kept) > MOST:
                self._remove(next(iter(self._kept)))
            self._sweep()
        return name

    def path(self, name: str, takes: str) -> Path:
        with self._lock:
            self._sweep()
            found = self._kept.get(name)
        if found is None or found.takes != takes:
            raise CallError(
                f"this model takes a {WHAT[takes]}: send it to /api/upload, and use the returned name here "
                f"(valid for {KEPT / 60:.0f} minutes)"
            )
        return found.path

    def without_paths(self, sentence: str) -> str:
        """Replace the path of an uploaded file in a message."""
        return re.sub(re.escape(self._folder.name) + r"[\w./-]*", "the file that was sent", sentence)

    def close(self) -> None:
        self._folder.cleanup()

    def _sweep(self) -> None:
        now = time.monotonic()
        for name in [name for name, one in self._kept.items() if one.until < now]:
            self._remove(name)

    def _remove(self, name: str) -> None:
        self._kept.pop(name).path.unlink(missing_ok=True)


def check_picture(content: bytes) -> str:
    """Check a picture and return its suffix; raise if it cannot be read."""
    try:
        from PIL import Image
    except ImportError:
        raise CallError("pictures need Pillow: pip install 'regard[image]'") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(content), formats=list(PICTURES)) as image:
                if image.width * image.height > PIXELS:
                    raise CallError(f"{image.width} × {image.height} pixels are too many: {PIXELS:,} at most")
                with at_once.taken(image.size):
                    image.load()
                return PICTURES[image.format or "PNG"]
        except CallError:
            raise
        except Exception as error:  # Pillow's readers fail in many ways on damaged files
            told = f"this picture cannot be read ({type(error).__name__})"
            raise CallError(f"{told}: send {_list(PICTURES)}") from None


def check_sound(content: bytes) -> str:
    try:
        import soundfile
    except ImportError:
        raise CallError("recordings need soundfile: pip install 'regard[audio]'") from None
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as sound:
            if sound.format not in SOUNDS or not sound.frames:
                raise CallError(f"this recording cannot be read: send {_list(SOUNDS)}")
            if sound.frames / sound.samplerate > SECONDS:
                raise CallError(f"{sound.frames / sound.samplerate:.0f} seconds are too many: {SECONDS:.0f} at most")
            if sound.frames * sound.channels > SAMPLES:
                raise CallError(f"{sound.frames * sound.channels:,} samples are too many: {SAMPLES:,} at most")
            for _ in sound.blocks(max(1, (1 << 18) // sound.channels), dtype="float32"):
                pass
            return SOUNDS[sound.format]
    except CallError:
        raise
    except (soundfile.SoundFileError, ValueError, OSError, RuntimeError, EOFError) as error:
        told = f"this recording cannot be read ({type(error).__name__})"
        raise CallError(f"{told}: send {_list(SOUNDS)}") from None


def check_table(content: bytes) -> str:
    """Check that a table is text; the model reads it later."""
    try:
        lines = content.decode("utf-8-sig").strip().splitlines()
    except UnicodeDecodeError:
        lines = []
    if len(lines) < 2 or "\0" in lines[0]:
        raise CallError("this table cannot be read: send CSV in UTF-8, with the names of its columns first")
    return ".csv"


def table_text(path: str | Path) -> str:
    """Return a table as CSV text, without a path; tabs become commas."""
    text = Path(path).read_text(encoding="utf-8-sig")
    if "\t" not in text.partition("\n")[0]:
        return text
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(row.fields for row in text_rows(text, "\t") if row.fields)
    return out.getvalue()


def _list(formats: dict[str, str]) -> str:
    return ", ".join(sorted({suffix[1:].upper() for suffix in formats.values()}))


# A few validation examples of each model for its page, read once in the background.
#
# A file input has a name such as `example:3`, which can be used like the name of an upload.

log = logging.getLogger("regard.serve")
EXAMPLE_PREFIX = "example:"
MOST_EXAMPLES = 6
SIDE, STEPS, BANDS = 96, 96, 24  # thumbnail: pixels of a picture; steps and bands of a sound or a series


class ModelExamples:
    """Validation examples by model. Thread-safe."""

    def __init__(self, runs: "Mapping[str, AnyRun]") -> None:
        self._runs, self._found = runs, dict[str, list[Example]]()
        self._locks = {name: Lock() for name in runs}

    def start(self) -> None:
        """Read all examples in the background, one model after the other."""
        Thread(target=lambda: [self.of(name) for name in self._runs], name="examples", daemon=True).start()

    def of(self, name: str) -> list[Example]:
        """Return the examples; None if the run's data is missing, as for an imported or moved model."""
        with self._locks[name]:
            if name not in self._found:
                try:
                    self._found[name] = self._runs[name].examples(MOST_EXAMPLES)
                except Exception as error:  # a page without examples is better than no page
                    log.info("no examples for %s: %s", name, error)
                    self._found[name] = []
            return self._found[name]

    def part(self, name: str, word: str, place: int) -> Any:
        """Return the input of `example:3`, or None; `place` selects one part of an input with two."""
        number = word.removeprefix(EXAMPLE_PREFIX)
        examples = self.of(name) if word.startswith(EXAMPLE_PREFIX) and number.isdecimal() and len(number) < 4 else []
        if not number.isdecimal() or int(number) >= len(examples):
            return None
        one = examples[int(number)].input
        return one[place] if len(self._runs[name].job.input.kinds) > 1 else one

    def described(self, name: str, longest: int) -> list[dict[str, Any]]:
        """Return the examples for the page: input, target, and a picture of inputs that are not text."""
        run = self._runs[name]
        found = (self._describe(run, number, one) for number, one in enumerate(self.of(name)))
        return [one for one in found if len(one["text"]) <= longest]

    def _describe(self, run: "AnyRun", number: int, example: Example) -> dict[str, Any]:
        input = run.job.input
        parts = example.input if len(input.kinds) > 1 else (example.input,)
        words = [
            f"{EXAMPLE_PREFIX}{number}" if kind in WHAT else part if isinstance(part, str) else input.word(part)
            for kind, part in zip(input.kinds, parts, strict=True)
        ]
        right = example.texts[0] if example.texts else ""
        seen: dict[str, Any] = _thumbnail(run, example.input) if any(kind in WHAT for kind in input.kinds) else {}
        return {"text": "\t".join(words), "right": right, **seen}


def _thumbnail(run: "AnyRun", one: Any) -> dict[str, Any]:
    axis = run.job.input.axis(run.job.input.read(one))
    if axis.image is not None:
        step = max(1, max(axis.image.shape) // SIDE)
        return {"image": to_png(np.ascontiguousarray(axis.image[::step, ::step]))}
    if axis.signal is None:
        return {}
    bands = np.atleast_2d(axis.signal)
    rows, columns = (np.linspace(0, size - 1, min(size, most)).astype(int) for size, most in
                     zip(bands.shape, (BANDS, STEPS), strict=True))  # fmt: skip
    when = {} if axis.unit == "s" else {"when": f"{axis.labels[0]} to {axis.labels[-1]}"}
    return {"signal": np.round(bands[np.ix_(rows, columns)], 3).tolist(), **when}
