"""Divide examples into training, validation and test splits, in the same way for all inputs.

Without validation data, a share of the training data is held out for it; without test data, another share, if
`data.test_share` requests it. Both are chosen by a hash of what identifies an example's input: the source text, the
document of a question, the name of a picture. Equal inputs have equal hashes, so they stay in one part, and no held-out
input is in training. The choice stays when examples are added, and needs no list of rows.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal

from regard.data.files import Source, T_co
from regard.data.pairs import Bad
from regard.data.store import text_hash
from regard.data.tables import Role

Part = Literal["all", "kept", "held out", "test"]


@dataclass(frozen=True)
class Split(Generic[T_co]):
    """One of train, valid and test: a whole source, or one part of it.

    share        of the source that is held out for validation
    sample       the share of the part that is read; chosen by a hash, too, so that equal inputs stay together
    test_share   of the source that is held out for testing
    """

    source: Source[T_co]
    part: Part = "all"
    share: float = 0.0
    sample: float = 1.0
    test_share: float = 0.0

    def read(self) -> Iterator[T_co | Bad]:
        for item in self.source.read():
            bad = isinstance(item, Bad)
            if self.sample < 1 and not _below(f"{item.file} {item.line}" if bad else item.key, self.sample, b"sample"):
                continue
            if bad:
                if self.part in ("all", "kept"):  # once is enough
                    yield item
            elif self.part in ("all", part_of(item.key, self.share, self.test_share)):
                yield item

    def good(self) -> Iterator[T_co]:
        """Yield only usable examples."""
        return (item for item in self.read() if not isinstance(item, Bad))

    def depends_on(self) -> list[Any]:
        return [*self.source.depends_on(), self.part, self.share, self.sample, self.test_share]

    @property
    def held_out_by(self) -> str:
        """Return the setting that held this part out; empty if none did."""
        settings: dict[Part, str] = {"held out": "valid_share", "test": "test_share"}
        return settings.get(self.part, "")

    def __str__(self) -> str:
        return self.source.where if self.part == "all" else f"{self.source.where} ({self.part})"


def part_of(key: str, valid_share: float, test_share: float) -> Part:
    """Return the part that an example belongs to: test, held out (for validation) or kept (for training)."""
    if _below(key, test_share, b"test"):
        return "test"
    return "held out" if _below(key, valid_share, b"held out") else "kept"


def _below(key: str, share: float, salt: bytes) -> bool:
    return text_hash(key, salt) < int(share * 2**64)


def find_splits(
    sources: Mapping[Role, Source[T_co]],
    count: Callable[[Source[T_co]], int],
    *,
    valid_share: float,
    valid_most: int,
    test_share: float = 0.0,
) -> dict[Role, Split[T_co]]:
    """Return the splits. Without a source for validation, `valid_share` of training is held out, and at most about
    `valid_most` of the examples that `count` counts. Without one for testing, `test_share` is held out."""
    splits: dict[Role, Split[T_co]] = {role: Split(source) for role, source in sources.items()}
    if "train" in sources:
        train, share = sources["train"], 0.0
        testing = 0.0 if "test" in sources else test_share
        if "valid" not in sources:
            share = min(valid_share, valid_most / max(1, count(train)))
            splits["valid"] = Split(train, "held out", share, test_share=testing)
        if share or testing:
            splits["train"] = Split(train, "kept", share, test_share=testing)
        if testing:
            splits["test"] = find_test(sources, testing)
    roles: tuple[Role, ...] = ("train", "valid", "test")
    return {role: splits[role] for role in roles if role in splits}


def find_test(sources: Mapping[Role, Source[T_co]], test_share: float) -> Split[T_co]:
    """Return the test data: its own source, or the part of the training data that is held out for testing."""
    if "test" in sources:
        return Split(sources["test"])
    return Split(sources["train"], "test", test_share=test_share)


def without_test(sources: Mapping[Role, Source[T_co]], test_share: float) -> Split[T_co]:
    """Return the training source without the part that is held out for testing."""
    testing = 0.0 if "test" in sources else test_share
    return Split(sources["train"], "kept", test_share=testing) if testing else Split(sources["train"])
