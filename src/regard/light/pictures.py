"""Pictures for graphs, decoded by Pillow as in training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from regard.errors import CallError
from regard.inputs.image.decode import BadPictureError, Decoded, Form, decode, from_python
from regard.inputs.image.source import PictureSource
from regard.inputs.media_files import Bytes, files_named
from regard.light.inputs import LightInput
from regard.light.session import Arrays
from regard.look.axis import Axis, axis

CLASS_TOKEN = "[CLS]"


class PictureItem(NamedTuple):
    name: str
    pixels: np.ndarray  # C H W


class LightPicture(LightInput):
    kind: ClassVar[str] = "image"
    array_dims: ClassVar[int] = 3
    takes_files: ClassVar[bool] = True

    def parse(self, words: Sequence[str]) -> list[str]:
        return files_named(words, PictureSource.is_one, PictureSource.what)

    def name(self, one: Any) -> str:
        if isinstance(one, PictureItem):
            return one.name
        return str(one) if isinstance(one, str | Path) else f"a picture ({type(one).__name__})"

    def read(self, one: Any) -> PictureItem:
        """Read a picture: a path, bytes, an array, or a Pillow image."""
        if isinstance(one, PictureItem):
            return one
        try:
            return PictureItem(self.name(one), self._decoded(one).pixels)
        except BadPictureError as problem:
            raise CallError(f"{self.name(one)}: {problem}") from None
        except OSError as problem:
            raise CallError(f"{self.name(one)}: cannot be read: {problem.strerror or problem}") from None

    def _decoded(self, one: Any) -> Decoded:
        data = self.recipe.data
        form = Form(data.height, data.width, data.channels, data.fit, data.max_pixels, data.white)
        place = PictureSource.find(str(one)) if isinstance(one, str | Path) else one
        if isinstance(place, Bytes):
            return decode(place.read(), form, place.name)
        return decode(place, form) if isinstance(place, bytes) else from_python(place, form)

    def length(self, item: PictureItem) -> int:
        rows, columns = self.reads["grid"]
        return rows * columns

    def collate(self, items: Sequence[PictureItem]) -> Arrays:
        return {"source": np.stack([item.pixels for item in items])}

    def axis(self, item: PictureItem) -> Axis:
        rows, columns = self.reads["grid"]
        regions = [f"row {row + 1}, column {column + 1}" for row in range(rows) for column in range(columns)]
        first = [CLASS_TOKEN] if self.reads["class_token"] else []
        return axis([*first, *regions], grid=(rows, columns), image=item.pixels.transpose(1, 2, 0))
