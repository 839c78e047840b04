"""Augmentation of pictures that preserves their content: crop, shift, mirror, recolor, erase.

Random numbers of a picture depend on (seed, epoch, row) alone. A resumed run therefore gets identical pictures, in
whichever process, batch or thread they are made.

RandAugment (Cubuk et al. 2019, section 3, arXiv:1909.13719): `operations` changes sampled from a list, each at one
`strength`. Ours is between 0 and 1, where 1 is the paper's magnitude of 30. Erasing: Zhong et al. 2017
(arXiv:1708.04896). Mixing pictures and their labels is part of the model: `models/classifier.py`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import UInt8

from regard.inputs.image.decode import pillow
from regard.inputs.image.settings import PictureAugmentSettings

Chance = np.random.Generator
Pixels = UInt8[np.ndarray, "C H W"]
Operation = Callable[[Any, float], Any]  # a picture, and the strength: from −1 to 1


def augment(pixels: Pixels, how: PictureAugmentSettings, chance: Chance) -> Pixels:
    """Return the picture with all requested changes."""
    if how.crop:
        pixels = _crop(pixels, how.crop, chance)
    if how.shift:
        pixels = _shift(pixels, how.shift, chance)
    if how.flip and chance.random() < 0.5:
        pixels = pixels[:, :, ::-1]
    if how.operations:
        pixels = _recolor(pixels, how.operations, how.strength, chance)
    if how.erase and chance.random() < how.erase:
        pixels = _erase(pixels, chance)
    return np.ascontiguousarray(pixels)


def _crop(pixels: Pixels, share: float, chance: Chance) -> Pixels:
    """Return a random part of the picture with at least 1 − share of each side, resized to the full size."""
    _, height, width = pixels.shape
    rows, columns = (1 - share * chance.random(2)) * (height, width)
    top, left = chance.random(2) * (height - rows, width - columns)
    return _as_image(pixels, lambda image: image.resize(image.size, box=(left, top, left + columns, top + rows)))


def _shift(pixels: Pixels, most: int, chance: Chance) -> Pixels:
    _, height, width = pixels.shape
    down, right = chance.integers(-most, most + 1, 2)
    rows = np.clip(np.arange(height) + down, 0, height - 1)
    columns = np.clip(np.arange(width) + right, 0, width - 1)
    return pixels[:, rows[:, None], columns]


def _erase(pixels: Pixels, chance: Chance) -> Pixels:
    """Cover a rectangle of up to half of each side with the picture's mean color."""
    _, height, width = pixels.shape
    rows, columns = (chance.uniform(0.1, 0.5, 2) * (height, width)).astype(int) + 1
    top, left = (chance.random(2) * (height - rows, width - columns)).astype(int)
    pixels = pixels.copy()
    pixels[:, top : top + rows, left : left + columns] = pixels.mean((1, 2)).astype(np.uint8)[:, None, None]
    return pixels


def _as_image(pixels: Pixels, change: Callable[[Any], Any]) -> Pixels:
    """Convert to a Pillow image."""
    color = len(pixels) == 3
    image = pillow().fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0) if color else pixels[0]))
    changed = np.asarray(change(image), np.uint8)
    return changed.transpose(2, 0, 1) if color else changed[None]


def _recolor(pixels: Pixels, operations: int, strength: float, chance: Chance) -> Pixels:
    def change(image: Any) -> Any:
        known = list(OPERATIONS.values())
        for operation in chance.integers(0, len(known), operations):
            sign = 1 if chance.random() < 0.5 else -1
            image = known[operation](image, sign * strength)
        return image

    return _as_image(pixels, change)


def _gray(image: Any) -> Any:
    return (128, 128, 128) if image.mode == "RGB" else 128


def _rotate(image: Any, amount: float) -> Any:
    return image.rotate(30 * amount, fillcolor=_gray(image))


def _affine(matrix: Callable[[Any, float], tuple[float, ...]]) -> Operation:
    """Transform a picture: its pixel (x, y) is pixel (a x + b y + c, d x + e y + f) of the original."""

    def moved(image: Any, amount: float) -> Any:
        from PIL.Image import Resampling, Transform

        how = matrix(image, amount)
        return image.transform(image.size, Transform.AFFINE, how, Resampling.BILINEAR, fillcolor=_gray(image))

    return moved


def _enhance(kind: str) -> Operation:
    def enhanced(image: Any, amount: float) -> Any:
        from PIL import ImageEnhance

        return getattr(ImageEnhance, kind)(image).enhance(1 + 0.9 * amount)

    return enhanced


def _tone_operation(kind: str, *arguments: Callable[[float], int]) -> Operation:
    """Return an operation of Pillow's ImageOps whose arguments depend on the strength."""

    def retoned(image: Any, amount: float) -> Any:
        from PIL import ImageOps

        return getattr(ImageOps, kind)(image, *(one(abs(amount)) for one in arguments))

    return retoned


#: The list of the paper.
OPERATIONS: dict[str, Operation] = {
    "identity": lambda image, amount: image,
    "autocontrast": _tone_operation("autocontrast"),
    "equalize": _tone_operation("equalize"),
    "rotate": _rotate,
    "solarize": _tone_operation("solarize", lambda strength: round(256 * (1 - strength))),
    "color": _enhance("Color"),
    "posterize": _tone_operation("posterize", lambda strength: 8 - round(4 * strength)),
    "contrast": _enhance("Contrast"),
    "brightness": _enhance("Brightness"),
    "sharpness": _enhance("Sharpness"),
    "shear x": _affine(lambda image, amount: (1.0, 0.3 * amount, -0.3 * amount * image.height / 2, 0.0, 1.0, 0.0)),
    "shear y": _affine(lambda image, amount: (1.0, 0.0, 0.0, 0.3 * amount, 1.0, -0.3 * amount * image.width / 2)),
    "translate x": _affine(lambda image, amount: (1.0, 0.0, 0.45 * amount * image.width, 0.0, 1.0, 0.0)),
    "translate y": _affine(lambda image, amount: (1.0, 0.0, 0.0, 0.0, 1.0, 0.45 * amount * image.height)),
}
