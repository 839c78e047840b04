"""Load embedded corpora by name; each is generated or read on first use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from regard.catalog import load_object
from regard.errors import CallError, nearest

PREFIX = "corpus:"
SPLITS = ("train", "valid", "test")
T = TypeVar("T")


@dataclass(frozen=True)
class Corpora(Generic[T]):
    """A table of corpora. `makers`: module:function of each, which takes a split; `what`: their noun in errors."""

    what: str
    makers: Mapping[str, str]

    def load(self, name: str, split: str) -> T:
        """Return a split (train, valid or test) of a corpus, named with or without `corpus:`."""
        name = name.removeprefix(PREFIX)
        if name not in self.makers:
            raise CallError(f"unknown {self.what}: {name!r}{nearest(name, tuple(self.makers))}")
        if split not in SPLITS:
            raise CallError(f"{name} has no split {split!r}{nearest(split, SPLITS)}")
        return load_object(self.makers[name])(split)
