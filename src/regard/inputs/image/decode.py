"""One picture: from the bytes of any format that Pillow reads to an array of one size, or a sentence that says why not.

What comes out is always what a person would see: turned as the camera was held (EXIF), 16 bits scaled to 8, CMYK and
palettes as colors, transparency on white, the first frame of an animation. Nothing is guessed in silence: whatever
was done to a file beyond resizing is noted, and counted by the data check.

Pillow is asked for the size before it decodes, so that a small file which would unpack to gigabytes (a decompression
bomb) costs nothing.
"""

import io
import warnings
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

import numpy as np
from jaxtyping import UInt8

from regard.errors import CallError

Fit = Literal["squash", "crop", "pad"]
WHITE = 255
_ENDINGS = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "gif": "GIF", "webp": "WEBP", "bmp": "BMP", "tif": "TIFF"}


class BadPictureError(Exception):
    """This file is no picture that can be used; the message says why."""


@dataclass(frozen=True)
class Form:
    """The form that all pictures of a data set are brought into."""

    height: int
    width: int
    channels: int = 3  # 3: colors; 1: shades of gray
    fit: Fit = "squash"
    max_pixels: int = 50_000_000

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.height, self.width


@dataclass(frozen=True)
class Decoded:
    """Channels × rows × columns, and what was done to get there that the owner of the data may want to know."""

    pixels: UInt8[np.ndarray, "C H W"]
    notes: tuple[str, ...] = ()


def pillow() -> Any:
    """PIL.Image, if it is installed."""
    try:
        from PIL import Image
    except ImportError:
        raise CallError("pictures need Pillow, which is not installed: pip install 'regard[image]'") from None
    return Image


def decode(data: bytes, form: Form, name: str = "") -> Decoded:
    """The picture in the bytes of a file called `name`."""
    Image = pillow()
    if not data:
        raise BadPictureError("the file is empty")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of damaged EXIF data, and of sizes that we judge ourselves
        try:
            with Image.open(io.BytesIO(data)) as image:
                _require_size(image.size, form.max_pixels)
                notes = list(_oddities(image, name))
                return Decoded(_to_array(_upright(image), form), tuple(notes))
        except BadPictureError:
            raise
        except Image.UnidentifiedImageError:
            raise BadPictureError(f"not a picture of any known format (it begins with {data[:8]!r})") from None
        except Image.DecompressionBombError as problem:
            raise BadPictureError(f"far too large: {problem}") from None
        except Exception as problem:  # a damaged file may raise anything from the depths of a decoder
            raise BadPictureError(f"damaged or cut short ({type(problem).__name__}: {problem})") from None


def from_array(array: Any, form: Form) -> Decoded:
    """A picture from numbers: rows × columns, with 1, 3 or 4 channels last. Only 8-bit numbers are pixels for sure."""
    pixels = np.asarray(array)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (3, 4)):
        raise BadPictureError(
            f"an array of {pixels.dtype} and shape {np.shape(array)}: a picture is uint8, rows × columns (× 3 or 4)"
        )
    _require_size((pixels.shape[1], pixels.shape[0]), form.max_pixels)
    return Decoded(_to_array(pillow().fromarray(pixels), form))


def from_picture(image: Any, form: Form) -> Decoded:
    """A picture that Pillow has read already."""
    _require_size(image.size, form.max_pixels)
    return Decoded(_to_array(_upright(image), form))


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
        yield f"the ending says {ending}, the content is {image.format}"
    if image.mode == "CMYK":
        yield "CMYK: converted to RGB without a color profile"
    if image.mode.startswith(("I", "F")):
        yield "more than 8 bits a pixel: scaled down to 8"
    if min(image.size) < 8:
        yield "fewer than 8 pixels a side"


def _upright(image: Any) -> Any:
    from PIL import ImageOps

    return ImageOps.exif_transpose(image)


def _to_array(image: Any, form: Form) -> UInt8[np.ndarray, "C H W"]:
    image = _resized(_eight_bits(image).convert("RGB" if form.channels == 3 else "L"), form)
    pixels = np.asarray(image, np.uint8)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1) if form.channels == 3 else pixels[None])


def _eight_bits(image: Any) -> Any:
    """Colors or grays of 8 bits, without transparency."""
    Image = pillow()
    if image.mode.startswith(("I", "F")):
        values = np.asarray(image, np.float64)
        if not np.isfinite(values).all():
            raise BadPictureError("some of its pixels are not numbers")
        whole = 65535.0 if image.mode.startswith("I;16") or values.max() <= 65535 else values.max()
        whole = 1.0 if image.mode == "F" and values.max() <= 1 else whole
        return Image.fromarray(np.clip(values / max(whole, 1e-9) * 255, 0, 255).round().astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        front = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", front.size, (WHITE,) * 4), front)
    return image


def _resized(image: Any, form: Form) -> Any:
    """squash: both sides to the wanted length. crop: the middle of it. pad: all of it, with white beside it."""
    from PIL import ImageOps

    Image, size = pillow(), (form.width, form.height)
    if image.size == size:
        return image
    if form.fit == "squash":
        return image.resize(size, Image.Resampling.BICUBIC)
    if form.fit == "crop":
        return ImageOps.fit(image, size, Image.Resampling.BICUBIC)
    return ImageOps.pad(image, size, Image.Resampling.BICUBIC, color=(WHITE,) * 3 if form.channels == 3 else WHITE)
