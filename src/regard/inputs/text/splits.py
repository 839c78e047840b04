"""Which pairs are for training, for validation, for testing."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from regard.data.files import PairSource
from regard.data.pairs import Bad, Columns, Pair
from regard.data.settings import FileFormat
from regard.data.tables import Role
from regard.data.text_hash import text_hash


@runtime_checkable
class PairFiles(Protocol):
    """What of a data section says where pairs come from, and how many are held out if nothing is for validation."""

    @property
    def train(self) -> str: ...
    @property
    def valid(self) -> str | None: ...
    @property
    def test(self) -> str | None: ...
    @property
    def format(self) -> FileFormat: ...
    @property
    def columns(self) -> Columns: ...
    @property
    def valid_share(self) -> float: ...
    @property
    def valid_most(self) -> int: ...


@dataclass(frozen=True)
class Split:
    """One of train, valid and test: all of a source of pairs, or one side of a division by a hash of the source text.

    The hash keeps equal sources together, so that what is held out for validation is never trained on, and needs no
    list of who is where.
    """

    pairs: PairSource
    part: Literal["all", "kept", "held out"] = "all"
    share: float = 0.0

    def read(self) -> Iterator[Pair | Bad]:
        if self.part == "all":
            yield from self.pairs.read()
            return
        limit = int(self.share * 2**64)
        for item in self.pairs.read():
            if isinstance(item, Bad):
                if self.part == "kept":  # once is enough
                    yield item
            elif (text_hash(item.source, b"held out") < limit) == (self.part == "held out"):
                yield item

    def __str__(self) -> str:
        return self.pairs.where if self.part == "all" else f"{self.pairs.where} ({self.part})"


def pair_source(settings: PairFiles, role: Role) -> PairSource | None:
    """Where the settings say that pairs come from. A corpus of ours brings its own parts for validation and testing."""
    where = {"train": settings.train, "valid": settings.valid, "test": settings.test}[role]
    if where is None and settings.train.startswith("corpus:"):
        where = settings.train
    return None if where is None else PairSource(where, role, settings.format, settings.columns)


def find_splits(settings: PairFiles, train_pairs: int) -> dict[Role, Split]:
    """The splits there are; without data.valid, some of the `train_pairs` training pairs are held out."""
    train, valid, test = (pair_source(settings, role) for role in ("train", "valid", "test"))
    assert train is not None
    return divided(train, valid, test, min(settings.valid_share, settings.valid_most / max(1, train_pairs)))


def divided(train: PairSource, valid: PairSource | None, test: PairSource | None, share: float) -> dict[Role, Split]:
    """Train, valid and test; where there is nothing for validation, this share of the training pairs is held out."""
    if valid is None:
        splits: dict[Role, Split] = {"train": Split(train, "kept", share), "valid": Split(train, "held out", share)}
    else:
        splits = {"train": Split(train), "valid": Split(valid)}
    if test is not None:
        splits["test"] = Split(test)
    return splits
