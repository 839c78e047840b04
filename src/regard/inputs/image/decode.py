"""One picture: from the bytes of any format that Pillow reads to an array of one size, or a
message with the reason.

The result is what a person would see. The picture is rotated by its EXIF orientation, 16 bits are scaled to 8, and
CMYK and palettes become colors. Transparency becomes white, and of an animation the first frame is used. Every
conversion except resizing is noted and counted by the data check.

Pillow reads the size before decoding, so a small file that would unpack to gigabytes (a decompression bomb) costs
nothing. Large pictures of several threads are decoded one after the other.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from threading import Condition, Lock
from typing import Any, Literal

import numpy as np
from jaxtyping import UInt8

from regard.errors import CallError, pip_install

Fit = Literal["squash", "crop", "pad"]
WHITE = 255
_ENDINGS = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "gif": "GIF", "webp": "WEBP", "bmp": "BMP", "tif": "TIFF"}


class BadPictureError(Exception):
    """Unusable picture file; the message contains the reason."""


@dataclass(frozen=True)
class Form:
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


def decode(data: bytes, form: Form, name: str = "") -> Decoded:
    """Decode the picture in the bytes of a file called `name`."""
    Image = pillow()
    if not data:
        raise BadPictureError("the file is empty")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damaged EXIF data, and of sizes, which are checked below
        try:
            with Image.open(io.BytesIO(data)) as image:
                return _formed(image, form, tuple(_oddities(image, name)))
        except BadPictureError:
            raise
        except Image.UnidentifiedImageError:
            raise BadPictureError(f"not a picture of any known format (it begins with {data[:8]!r})") from None
        except Image.DecompressionBombError as problem:
            raise BadPictureError(f"far too large: {problem}") from None
        except Exception as problem:  # a decoder may raise any exception on a damaged file
            raise BadPictureError(f"damaged or cut short ({type(problem).__name__}: {problem})") from None


def from_python(one: Any, form: Form) -> Decoded:
    """Convert a Pillow image, or numbers: an array or a tensor."""
    return _formed(one, form) if hasattr(one, "convert") else from_array(one, form)


def from_array(array: Any, form: Form) -> Decoded:
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
    return _formed(pillow().fromarray(np.ascontiguousarray(numbers)), form)


def _formed(image: Any, form: Form, notes: tuple[str, ...] = ()) -> Decoded:
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


def _to_array(image: Any, form: Form) -> UInt8[np.ndarray, "C H W"]:
    image = _resized(_eight_bits(image).convert("RGB" if form.channels == 3 else "L"), form)
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


def _resized(image: Any, form: Form) -> Any:
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
