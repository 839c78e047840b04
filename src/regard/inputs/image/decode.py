"""One picture: from the bytes of any format that Pillow reads to an array of one size, or a
message with the reason.

The result is what a person would see. The picture is rotated by its EXIF orientation, 16 bits are scaled to 8, and
CMYK and palettes become colors. Transparency becomes white, and of an animation the first frame is used. Every
conversion except resizing is noted and counted by the data check.

Pillow reads the size before decoding, so a small file that would unpack to gigabytes (a decompression bomb) costs
nothing. Large pictures of several threads are decoded one after the other.
"""

import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import PurePath
from threading import Condition, Lock, local
from typing import Any, BinaryIO, Literal

import numpy as np
from jaxtyping import UInt8

from regard.errors import CallError, pip_install
from regard.inputs.media_files import Bytes

Fit = Literal["squash", "crop", "pad"]
WHITE = 255
_ENDINGS = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "gif": "GIF", "webp": "WEBP", "bmp": "BMP", "tif": "TIFF"}


class BadPictureError(Exception):
    """Unusable picture file; the message contains the reason."""


@dataclass(frozen=True)
class PictureForm:
    """Common form of all pictures of a data set."""

    height: int
    width: int
    channels: int = 3  # 3: colors; 1: shades of gray
    fit: Fit = "squash"
    max_pixels: int = 50_000_000
    white: float = 1.0  # the value of white in arrays that are not uint8

    @property
    def seen(self) -> str:
        return f"{self.width}×{self.height} {'color' if self.channels == 3 else 'gray'}"

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.height, self.width


@dataclass(frozen=True)
class Decoded:
    """Channels × rows × columns, notes on conversions for the user, and the original form: 640×480 color."""

    pixels: UInt8[np.ndarray, "C H W"]
    notes: tuple[str, ...] = ()
    seen: str = ""


class _Budget:
    """Semaphore that counts pixels: a decoder waits in turn until there is room for its picture."""

    def __init__(self, most: int) -> None:
        self._most, self._free = most, most
        self._turn, self._changed = Lock(), Condition()

    @contextmanager
    def taken(self, size: tuple[int, int]) -> Iterator[None]:
        pixels = min(size[0] * size[1], self._most)  # a picture larger than the budget is decoded alone
        with self._turn, self._changed:
            self._changed.wait_for(lambda: self._free >= pixels)
            self._free -= pixels
        try:
            yield
        finally:
            with self._changed:
                self._free += pixels
                self._changed.notify_all()


#: Pixels that a process decodes at a time, in all its threads together: about 0.5 GB where each takes 8 bytes.
at_once = _Budget(60_000_000)


def pillow() -> Any:
    """Return PIL.Image, if it is installed."""
    try:
        from PIL import Image
    except ImportError:
        raise CallError(f"pictures need Pillow, which is not installed: {pip_install('regard[image]')}") from None
    return Image


def decode(data: bytes, form: PictureForm, name: str = "") -> Decoded:
    """Decode the picture in the bytes of a file called `name`."""
    Image = pillow()
    if not data:
        raise BadPictureError("the file is empty")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damaged EXIF data, and of sizes, which are checked below
        try:
            with Image.open(io.BytesIO(data)) as image:
                return _to_form(image, form, tuple(_oddities(image, name)))
        except BadPictureError:
            raise
        except Image.UnidentifiedImageError:
            raise BadPictureError(f"not a picture of any known format (it begins with {data[:8]!r})") from None
        except Image.DecompressionBombError as problem:
            raise BadPictureError(f"far too large: {problem}") from None
        except Exception as problem:  # a decoder may raise any exception on a damaged file
            raise BadPictureError(f"damaged or cut short ({type(problem).__name__}: {problem})") from None


def from_python(one: Any, form: PictureForm) -> Decoded:
    """Convert a Pillow image, or numbers: an array or a tensor."""
    return _to_form(one, form) if hasattr(one, "convert") else from_array(one, form)


def from_array(array: Any, form: PictureForm) -> Decoded:
    """Convert numbers to a picture: rows × columns, with 1, 3 or 4 channels last or, as in torch, first.

    Bytes are 0 to 255; other numbers lie between 0 and `form.white`.
    """
    numbers = array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)
    wrong = BadPictureError(
        f"an array of {numbers.dtype} and shape {numbers.shape}: a picture is uint8, or numbers from 0 to "
        f"{form.white:g} (data.white), of rows × columns (× 1, 3 or 4), or (1, 3 or 4 ×) rows × columns"
    )
    if numbers.ndim == 3 and numbers.shape[0] in (1, 3, 4) and min(numbers.shape[1:]) > 4:
        numbers = numbers.transpose(1, 2, 0)
    if numbers.ndim not in (2, 3) or (numbers.ndim == 3 and numbers.shape[2] not in (1, 3, 4)):
        raise wrong
    if numbers.ndim == 3 and numbers.shape[2] == 1:
        numbers = numbers[..., 0]
    if numbers.dtype != np.uint8:
        if numbers.dtype.kind not in "fiu" or not numbers.size or not 0 <= numbers.min() <= numbers.max() <= form.white:
            raise wrong
        numbers = (numbers * (255 / form.white)).round().astype(np.uint8)
    _require_size((numbers.shape[1], numbers.shape[0]), form.max_pixels)
    return _to_form(pillow().fromarray(np.ascontiguousarray(numbers)), form)


def _to_form(image: Any, form: PictureForm, notes: tuple[str, ...] = ()) -> Decoded:
    _require_size(image.size, form.max_pixels)
    color = image.mode not in ("1", "L", "LA", "La") and not image.mode.startswith(("I", "F"))
    seen = f"{image.width}×{image.height} {'color' if color else 'gray'}"
    with at_once.taken(image.size):
        return Decoded(_to_array(_upright(image), form), notes, seen)


def _require_size(size: tuple[int, int], most: int) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise BadPictureError(f"it has no pixels: {width}×{height}")
    if width * height > most:
        raise BadPictureError(f"{width:,}×{height:,} pixels are more than data.max_pixels={most:,} allows")


def _oddities(image: Any, name: str) -> Any:
    if getattr(image, "n_frames", 1) > 1:
        yield "animated or of several pages: the first is used"
    ending = PurePath(name).suffix.lstrip(".").lower()
    if ending in _ENDINGS and image.format not in (_ENDINGS[ending], "MPO"):  # MPO: JPEG with a second picture
        yield f"whose ending says {ending}, but the content is {image.format}"
    if image.mode == "CMYK":
        yield "in CMYK: converted to RGB without a color profile"
    if image.mode.startswith(("I", "F")):
        yield "of more than 8 bits a pixel: scaled down to 8"
    if min(image.size) < 8:
        yield "of fewer than 8 pixels a side"


def _upright(image: Any) -> Any:
    from PIL import ImageOps

    return ImageOps.exif_transpose(image)


def _to_array(image: Any, form: PictureForm) -> UInt8[np.ndarray, "C H W"]:
    image = _resize(_eight_bits(image).convert("RGB" if form.channels == 3 else "L"), form)
    pixels = np.asarray(image, np.uint8)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1) if form.channels == 3 else pixels[None])


def _eight_bits(image: Any) -> Any:
    """Return colors or grays of 8 bits, without transparency."""
    Image = pillow()
    if image.mode.startswith(("I", "F")):
        values = np.asarray(image, np.float64)
        if not np.isfinite(values).all():
            raise BadPictureError("some of its pixels are NaN or infinite")
        whole = 65535.0 if image.mode.startswith("I;16") or values.max() <= 65535 else values.max()
        whole = 1.0 if image.mode == "F" and values.max() <= 1 else whole
        return Image.fromarray(np.clip(values / max(whole, 1e-9) * 255, 0, 255).round().astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        front = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", front.size, (WHITE,) * 4), front)
    return image


def _resize(image: Any, form: PictureForm) -> Any:
    """Fit to the form. squash: resize both sides; crop: keep the middle; pad: keep all, with white borders."""
    from PIL import ImageOps

    Image, size = pillow(), (form.width, form.height)
    if image.size == size:
        return image
    if form.fit == "squash":
        return image.resize(size, Image.Resampling.BICUBIC)
    if form.fit == "crop":
        return ImageOps.fit(image, size, Image.Resampling.BICUBIC)
    return ImageOps.pad(image, size, Image.Resampling.BICUBIC, color=(WHITE,) * 3 if form.channels == 3 else WHITE)


# Decoding in separate processes: it uses all cores, and a file that crashes a decoder does not end the program.
#
# A worker is `python -m regard.inputs.image.decode`: it reads a line of JSON for each group of files and writes, for
# each file, a line of JSON and the pixels. (Not `multiprocessing`: its processes would import the user's script
# again, which must then be written for it; and a process that dies would hang the pool.)
#
#     → {"form": {...}, "files": [["photo.jpg", 0, null], ["images.tar", 1536, 20480]]}     name, first byte, how many
#     ← {"notes": ["..."], "seen": "640×480 color"} and C·H·W bytes      or      {"error": "..."}

GROUP = 16  # files in one request
AHEAD = 3  # pending groups for each worker


def decode_all(files: Sequence[Bytes], form: PictureForm, workers: int = 0) -> Iterator[Decoded | BadPictureError]:
    """Decode pictures, in the order of the files. `workers=0`: one for each core, and none for a few files."""
    groups = [files[start : start + GROUP] for start in range(0, len(files), GROUP)]
    workers = min(workers or os.cpu_count() or 1, len(groups))
    if len(groups) <= 2 or workers < 1:
        yield from (_decode_file(file, form) for file in files)
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


def _decode_file(file: Bytes, form: PictureForm) -> Decoded | BadPictureError:
    try:
        return decode(file.read(), form, file.name or file.path)
    except BadPictureError as problem:
        return problem
    except OSError as problem:
        return BadPictureError(f"cannot be read: {problem.strerror or problem}")


class _Worker:
    """Worker process. It is restarted after a crash; a file on which it crashes twice is bad."""

    def __init__(self, form: PictureForm) -> None:
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
            command = [sys.executable, "-m", "regard.inputs.image.decode"]
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
        form = PictureForm(**asked["form"])
        for file in asked["files"]:
            found = _decode_file(Bytes(*file), form)
            if isinstance(found, BadPictureError):
                answers.write(json.dumps({"error": str(found)}).encode() + b"\n")
            else:
                answers.write(json.dumps({"notes": found.notes, "seen": found.seen}).encode() + b"\n")
                answers.write(found.pixels.tobytes())
            answers.flush()  # the next file may crash the decoder


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
