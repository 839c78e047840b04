"""Uploaded pictures, recordings and tables: checked, stored for a while under generated names, then deleted.

A client receives a name such as `upload:3f…` and uses it instead of a text. The name is a hash of the content, so that
the same content always has the same name and links stay valid. It is only looked up among known names and is never part
of a path.
"""

import csv
import hashlib
import io
import re
import secrets
import threading
import time
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from regard.data.formats import text_rows
from regard.errors import CallError
from regard.inputs.image.decode import at_once

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
