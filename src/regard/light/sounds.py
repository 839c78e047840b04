"""Recordings for graphs, read as in training (`inputs/sound/item.py`)."""

from collections.abc import Sequence
from typing import Any, ClassVar

from regard.inputs.media_files import files_named
from regard.inputs.sound.features import MemoryTimes
from regard.inputs.sound.item import SoundItem, SoundReader
from regard.inputs.sound.source import SoundSource
from regard.light.inputs import LightInput, padded
from regard.light.session import Arrays
from regard.look.axis import Axis


class LightSound(SoundReader, LightInput):
    kind: ClassVar[str] = "sound"
    array_dims: ClassVar[int] = 2
    takes_files: ClassVar[bool] = True

    def parse(self, words: Sequence[str]) -> list[str]:
        return files_named(words, SoundSource.is_one, SoundSource.what)

    def find(self, word: str) -> Any:
        return SoundSource.find(word)

    def collate(self, items: Sequence[SoundItem]) -> Arrays:
        return padded([item.features for item in items])

    def axis(self, item: SoundItem) -> Axis:
        return MemoryTimes(self.recipe.data.sound, self.reads["reduction"]).axis(item.features)
