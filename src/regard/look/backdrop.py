"""The image, sound or series under an attention overlay.

Records stay small: images have at most 512 pixels a side, signals at most 2,000 time steps. Regions and frames of the
overlay are much coarser.
"""

import base64
import io
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from regard.errors import CallError

MOST_PIXELS, MOST_STEPS = 512, 2000


def image_array(image: Any) -> UInt8[np.ndarray, "H W 3"]:
    """Convert from Pillow, numpy or torch: 1, 3 or 4 channels, last or first; 0 to 255, or 0.0 to 1.0."""
    array = np.asarray(image.detach().float().cpu() if hasattr(image, "detach") else image)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3, 4):
        array = np.moveaxis(array, 0, 2)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or not array.size:
        raise CallError(f"an image is rows × columns, with 1, 3 or 4 channels, not of shape {array.shape}")
    if np.issubdtype(array.dtype, np.floating):
        if not np.isfinite(array).all() or array.min() < -1e-3 or array.max() > 1 + 1e-3:
            raise CallError("an image of fractions must lie between 0 and 1: undo the normalization first")
        array = np.round(array * 255)
    array = np.clip(array, 0, 255).astype(np.uint8)
    array = np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array[:, :, :3]
    if max(array.shape) > MOST_PIXELS:
        array = _smaller(array)
    return np.ascontiguousarray(array)


def signal_array(signal: Any) -> Float[np.ndarray, "*F N"]:
    """Convert a series of N numbers, or a spectrogram of F bands (lowest first) × N steps."""
    array = np.asarray(signal.detach().float().cpu() if hasattr(signal, "detach") else signal, dtype=np.float32)
    if array.ndim not in (1, 2) or not array.size:
        raise CallError(f"a signal is a series, or a spectrogram of bands × steps, not of shape {array.shape}")
    if not np.isfinite(array).all():
        raise CallError("a signal must be finite: fill what is missing first")
    steps = array.shape[-1]
    if steps > MOST_STEPS:  # mean of neighbors for a spectrogram; peaks for a wave, as only they are visible
        starts = np.arange(MOST_STEPS) * steps // MOST_STEPS
        if array.ndim == 2:
            array = np.add.reduceat(array, starts, axis=1) / np.diff(np.append(starts, steps))
        else:
            groups = np.split(array, starts[1:])
            array = np.array([group[np.abs(group - array.mean()).argmax()] for group in groups])
    return array.astype(np.float32)


def to_png(image: UInt8[np.ndarray, "H W C"]) -> str:
    """Encode as PNG in base 64, for pages and JSON."""
    from PIL import Image  # comes with matplotlib

    file = io.BytesIO()
    Image.fromarray(image).save(file, format="PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def from_png(text: str) -> UInt8[np.ndarray, "H W 3"]:
    from PIL import Image

    return np.array(Image.open(io.BytesIO(base64.b64decode(text)), formats=["PNG"]).convert("RGB"))


def _smaller(array: UInt8[np.ndarray, "H W 3"]) -> UInt8[np.ndarray, "h w 3"]:
    from PIL import Image

    picture = Image.fromarray(array)
    picture.thumbnail((MOST_PIXELS, MOST_PIXELS))
    return np.array(picture)
