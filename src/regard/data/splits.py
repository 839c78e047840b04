"""Which examples are for training, for validation, for testing; one way for all that is read.

Without validation data, a share of the training data is held out, by a hash of what tells an example's input: the
source text, the document of a question, the name of a picture. The hash keeps equal inputs together, so that what is
held out is never trained on; the choice stays when other examples are added, and needs no list of who is where.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal

from regard.data.files import Source, T_co
from regard.data.pairs import Bad
from regard.data.store import text_hash
from regard.data.tables import Role


@dataclass(frozen=True)
class Split(Generic[T_co]):
    """One of train, valid and test: all of a source, or one side of a division of it.

    `sample`: the share of it that is looked at. It is chosen by a hash, too, so that equal inputs stay together.
    """

    source: Source[T_co]
    part: Literal["all", "kept", "held out"] = "all"
    share: float = 0.0
    sample: float = 1.0

    def read(self) -> Iterator[T_co | Bad]:
        for item in self.source.read():
            bad = isinstance(item, Bad)
            if self.sample < 1 and not _below(f"{item.file} {item.line}" if bad else item.key, self.sample, b"sample"):
                continue
            if bad:
                if self.part != "held out":  # once is enough
                    yield item
            elif self.part == "all" or is_held_out(item.key, self.share) == (self.part == "held out"):
                yield item

    def good(self) -> Iterator[T_co]:
        """Only what can be used."""
        return (item for item in self.read() if not isinstance(item, Bad))

    def depends_on(self) -> list[Any]:
        return [*self.source.depends_on(), self.part, self.share, self.sample]

    def __str__(self) -> str:
        return self.source.where if self.part == "all" else f"{self.source.where} ({self.part})"


def is_held_out(key: str, share: float) -> bool:
    return _below(key, share, b"held out")


def _below(key: str, share: float, salt: bytes) -> bool:
    return text_hash(key, salt) < int(share * 2**64)


def find_splits(
    sources: Mapping[Role, Source[T_co]], count: Callable[[Source[T_co]], int], *, valid_share: float, valid_most: int
) -> dict[Role, Split[T_co]]:
    """The splits there are. Without a source for validation, `valid_share` of training is held out, and at most about
    `valid_most` of the examples, which `count` counts."""
    splits: dict[Role, Split[T_co]] = {role: Split(source) for role, source in sources.items()}
    if "train" in sources and "valid" not in sources:
        train = sources["train"]
        share = min(valid_share, valid_most / max(1, count(train)))
        splits |= {"train": Split(train, "kept", share), "valid": Split(train, "held out", share)}
    roles: tuple[Role, ...] = ("train", "valid", "test")
    return {role: splits[role] for role in roles if role in splits}
