"""Predictions of pictures: as arrays, as Pillow images, as files."""

import io
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from regard.errors import CallError
from regard.files import atomic
from regard.inputs.image.decode import pillow
from regard.outputs.result import Prediction

SIDE, GAP = 192, 8  # size of a picture on a sheet and gap between two, in pixels
Pixels = UInt8[np.ndarray, "H W C"]


@dataclass(frozen=True)
class Drawing(Prediction):
    """Pictures drawn for one sentence, best first; `text` holds the codes of the best, row by row."""

    pictures: tuple[np.ndarray, ...] = ()  # H W C, uint8
    unknown: tuple[str, ...] = ()  # words of the sentence that are not in the vocabulary

    @property
    def picture(self) -> np.ndarray:
        return self.pictures[0]

    @property
    def image(self) -> Any:
        """Return the best picture as a Pillow image."""
        return as_image(self.picture)

    @property
    def note(self) -> str:
        if not self.unknown:
            return ""
        words = ", ".join(map(repr, self.unknown))
        return f"{len(self.unknown)} unknown to the model, which drew without: {words}"

    def as_dict(self) -> dict[str, Any]:
        pictures = [b64encode(_png(as_image(picture))).decode() for picture in self.pictures]
        found = super().as_dict() | {"png": pictures}
        del found["pictures"]  # equal values as numbers
        return found

    def save(self, path: str | Path) -> Path:
        """Write the best picture, pixel by pixel, to a .png file."""
        return write_png(self.image, Path(path))

    def save_with(self, others: Sequence["Drawing"], path: str | Path) -> Path:
        """Write one picture as it is, or several as a sheet, if `path` has a suffix; else write a folder with a file
        for each.
        """
        drawings, path = [self, *others], Path(path)
        if path.suffix and sum(len(one.pictures) for one in drawings) == 1:
            return self.save(path)
        if path.suffix:
            return write_png(sheet([one.pictures for one in drawings]), path)
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise CallError(f"{path} already exists and is not empty: give a new folder, or a sheet, FILE.png")
        path.mkdir(parents=True, exist_ok=True)
        for number, one in enumerate(drawings, 1):
            for rank, picture in enumerate(one.pictures, 1):
                name = f"{number:04}.png" if len(one.pictures) == 1 else f"{number:04}-{rank}.png"
                write_png(as_image(picture), path / name)
        return path


def as_image(picture: np.ndarray) -> Any:
    """Return an RGB or grayscale Pillow image."""
    return pillow().fromarray(np.ascontiguousarray(picture[..., 0] if picture.shape[2] == 1 else picture))


def sheet(rows: Sequence[Sequence[np.ndarray]]) -> Any:
    """Return pictures of one size, row by row, enlarged so that single pixels are visible."""
    Image = pillow()
    first = rows[0][0]
    scale = max(1, SIDE // max(first.shape[:2]))
    high, wide = (side * scale + GAP for side in first.shape[:2])
    whole = Image.new("RGB", (wide * max(map(len, rows)) + GAP, high * len(rows) + GAP), "white")
    for row, pictures in enumerate(rows):
        for column, picture in enumerate(pictures):
            large = as_image(picture).resize((wide - GAP, high - GAP), Image.Resampling.NEAREST)
            whole.paste(large.convert("RGB"), (GAP + column * wide, GAP + row * high))
    return whole


def write_png(image: Any, path: Path) -> Path:
    """Write the file atomically."""
    if path.suffix.lower() != ".png":
        raise CallError(f"{path}: a drawing is written as FILE.png")
    return atomic.write_bytes(path, _png(image))


def as_html(image: Any, about: str) -> str:
    return f'<img alt="{about}" src="data:image/png;base64,{b64encode(_png(image)).decode()}">'


def _png(image: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, format="PNG")
    return out.getvalue()
