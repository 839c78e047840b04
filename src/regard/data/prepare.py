"""Prepare the user's files for training: count, divide, learn a vocabulary, store; each step is cached (`cache.py`).

A step depends on the files (name, size, modification time), on the relevant settings, and on the earlier steps.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar
from uuid import uuid4

from pydantic import TypeAdapter

from regard.data.files import FileSource, Read, T_co
from regard.data.pairs import ReadReport, SkippedLine
from regard.data.store import VERSION, Store, text_hash
from regard.data.tables import Role
from regard.data.vocabulary import Targets, Vocabulary
from regard.errors import RegardError
from regard.files import atomic
from regard.work import showing_progress, with_progress

# Cached steps of preparing data; each is repeated only if its key changes.
#
# Every step writes a folder of the cache whose name ends in a fingerprint of everything that the step depends on, its
# key. A folder is built under another name, and renamed when it is complete and on disk. So a killed step leaves no
# result, and processes that build the same step at the same time do not conflict.
#
# `B2SUMS` in it has the BLAKE2b digest of each file (`b2sum -c` reads it, too). They are checked at every use,
# because a flipped bit would silently change the trained model. A damaged folder is built again.

SUMS = "B2SUMS"


def built_once(cache: Path, step: str, key: Any, build: Callable[[Path], None]) -> Path:
    """Return the folder of a step; `build` fills it if it is missing or damaged.

    `key` is any JSON value.
    """
    folder = cache / f"{step}-{blake2b(json.dumps(key).encode(), digest_size=10).hexdigest()}"
    aside = cache / f".{step}-{uuid4().hex}"
    if folder.exists():
        damage = damage_of(folder)
        if damage is None:
            return folder
        print(f"{folder} is damaged ({damage}); it is built again", file=sys.stderr)
        with suppress(FileNotFoundError):  # another process was faster
            folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        build(aside)
        files = sorted(aside.iterdir())
        (aside / SUMS).write_text("".join(f"{_digest(file)}  {file.name}\n" for file in files), encoding="utf-8")
        for path in (*files, aside / SUMS, aside):
            atomic.flush(path)
        aside.rename(folder)
        atomic.flush(cache)
    except OSError:
        if not folder.exists():  # otherwise another process was faster, and its result is the same
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def damage_of(folder: Path) -> str | None:
    """Return what is wrong with a cached folder, or None."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").split("\n")
        sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines if line)}
        present = {path.name for path in folder.iterdir()} - {SUMS}
        if different := sums.keys() ^ present:
            return f"{min(different)} is {'missing' if min(different) in sums else 'none of its files'}"
        changed = (name for name, digest in sums.items() if _digest(folder / name) != digest)
        return next((f"{name} has changed since it was written" for name in changed), None)
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, UnicodeDecodeError) as error:
        return f"it cannot be read: {error}"


def _digest(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "blake2b").hexdigest()


# Divide examples into training, validation and test splits, in the same way for all inputs.
#
# Without validation data, a share of the training data is held out for it; without test data, another share, if
# `data.test_share` requests it. Both are chosen by a hash of what identifies an example's input: the source text, the
# document of a question, the name of a picture. Equal inputs have equal hashes, so they stay in one part, and no
# held-out input is in training. The choice stays when examples are added, and needs no list of rows.

Part = Literal["all", "kept", "held out", "test"]


@dataclass(frozen=True)
class Split(Generic[T_co]):
    """One of train, valid and test: a whole source, or one part of it.

    share        of the source that is held out for validation
    sample       the share of the part that is read; chosen by a hash, too, so that equal inputs stay together
    test_share   of the source that is held out for testing
    """

    source: FileSource[T_co]
    part: Part = "all"
    share: float = 0.0
    sample: float = 1.0
    test_share: float = 0.0

    def read(self) -> Iterator[T_co | SkippedLine]:
        for item in self.source.read():
            bad = isinstance(item, SkippedLine)
            if self.sample < 1 and not _below(f"{item.file} {item.line}" if bad else item.key, self.sample, b"sample"):
                continue
            if bad:
                if self.part in ("all", "kept"):  # once is enough
                    yield item
            elif self.part in ("all", part_of(item.key, self.share, self.test_share)):
                yield item

    def good(self) -> Iterator[T_co]:
        """Yield only usable examples."""
        return (item for item in self.read() if not isinstance(item, SkippedLine))

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
    sources: Mapping[Role, FileSource[T_co]],
    count: Callable[[FileSource[T_co]], int],
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


def find_test(sources: Mapping[Role, FileSource[T_co]], test_share: float) -> Split[T_co]:
    """Return the test data: its own source, or the part of the training data that is held out for testing."""
    if "test" in sources:
        return Split(sources["test"])
    return Split(sources["train"], "test", test_share=test_share)


def without_test(sources: Mapping[Role, FileSource[T_co]], test_share: float) -> Split[T_co]:
    """Return the training source without the part that is held out for testing."""
    testing = 0.0 if "test" in sources else test_share
    return Split(sources["train"], "kept", test_share=testing) if testing else Split(sources["train"])


T = TypeVar("T", bound=Read)
S = TypeVar("S", bound=Store)
V = TypeVar("V")
_REPORT = TypeAdapter(ReadReport)
MANY = 300_000  # training examples; with more, a check samples ...
SAMPLE = 100_000  # ... about this many


@dataclass(frozen=True)
class PrepareCache:
    """Steps of preparing data. `settings` is a data section with `max_bad`, `valid_share` and `valid_most`.

    `strict` refuses data with more bad lines than `data.max_bad`, and skips test data. Without it, for `check`, bad
    lines are only counted, and large data is sampled.
    """

    settings: Any
    cache: Path
    strict: bool = True

    @classmethod
    def of(cls, settings: Any, cache: Path, *, strict: bool = True) -> "PrepareCache":
        """Return the steps; `settings.cache` takes precedence over `cache`."""
        return cls(settings, Path(settings.cache).expanduser() if settings.cache else cache, strict)

    def count(self, source: FileSource[Any]) -> ReadReport:
        """Count the training examples and bad lines; raise if too many are bad."""

        def build(folder: Path) -> None:
            report = ReadReport()
            rows = with_progress(source.read(), f"counting {source.where}", total=source.estimate_rows())
            for _ in report.only_pairs(rows):
                pass
            (folder / "count.json").write_bytes(_REPORT.dump_json(report))

        folder = built_once(self.cache, "count", source.depends_on(), build)
        report = _REPORT.validate_json((folder / "count.json").read_bytes())
        if self.strict or not report.pairs:
            report.refuse_if(f"data.train={source.where}", self.settings.max_bad)
        return report

    def splits(self, sources: Mapping[Role, FileSource[T]]) -> dict[Role, Split[T]]:
        """Return train and valid, and test if not `strict`; without validation data, some of train is held out."""
        s = self.settings
        found = find_splits(
            sources, lambda source: self.count(source).pairs,
            valid_share=s.valid_share, valid_most=s.valid_most, test_share=s.test_share,
        )  # fmt: skip
        test = found.get("test")
        if test is not None and (self.strict or (test.held_out_by and next(test.good(), None) is None)):
            del found["test"]
        if self.strict:
            return found
        total = self.count(sources["train"]).pairs
        sample = SAMPLE / total if total > MANY else 1.0
        return {role: replace(split, sample=sample) for role, split in found.items()}

    def vocabulary(self, step: str, key: Any, learn: Callable[[], Any], load: Callable[[str], V]) -> V:
        """Return the result of `learn`, cached by `key`. It has `to_json`, and `load` is the inverse."""

        def build(folder: Path) -> None:
            with showing_progress("learning the vocabulary"):
                (folder / "vocabulary.json").write_text(learn().to_json(), encoding="utf-8")

        folder = built_once(self.cache, step, key, build)
        return load((folder / "vocabulary.json").read_text(encoding="utf-8"))

    def targets(self, targets: Targets, key: Any, texts: Callable[[], Iterable[str]], total: int = 0) -> Vocabulary:
        """Return the vocabulary of targets: the existing one, or one learned from `texts`, which depend on `key`.

        `total`: the approximate number of texts, to estimate the remaining time."""
        if targets.key is None:
            return targets.learn(())

        def learn() -> Vocabulary:
            return targets.learn(with_progress(texts(), "learning the vocabulary of the targets", total=total))

        return self.vocabulary("targets", [key, targets.key], learn, targets.load)

    def store(
        self,
        kind: Callable[[Path], S],
        role: Role,
        split: Split[T],
        key: Any,
        write: Callable[[Path, str, Iterable[T | SkippedLine]], None],
        *,
        limit: str = "",
        refuse: bool = True,
    ) -> S:
        """Return what `write` stored, cached by the split, everything that is read of it, and `key`.

        Raise if nothing is left, or too few of the examples. `limit`: description of the length limit in the message.
        """

        def build(folder: Path) -> None:
            write(folder, str(split), with_progress(split.read(), f"reading {split}", total=self.about(split)))

        store = kind(built_once(self.cache, role, [VERSION, split.depends_on(), key], build))
        store.counts.sampled = split.sample
        if refuse:
            self.refuse_if_useless(store.counts.read, len(store), role, split, limit=limit)
        return store

    def about(self, split: Split[Any]) -> int:
        """Return the number of examples of a part; 0 if unknown, because only dividing the data counts them."""
        if split.part not in ("kept", "held out", "test"):
            return round(split.sample * split.source.estimate_rows())
        share = {"held out": split.share, "test": split.test_share, "kept": 1 - split.share - split.test_share}
        return round(split.sample * share[split.part] * self.count(split.source).pairs)

    def refuse_if_useless(self, read: ReadReport, kept: int, role: Role, split: Split[Any], *, limit: str) -> None:
        """Raise if no examples are left, or too few; `kept`: how many are short enough."""
        name = f"data.{role}={split}"
        if split.held_out_by and not read.pairs:
            share = f"data.{split.held_out_by}={getattr(self.settings, split.held_out_by):g}"
            raise RegardError(f"{name}: nothing was held out by {share}; raise it, or give data.{role}")
        if self.strict or not read.pairs:
            read.refuse_if(name, self.settings.max_bad)
        if not kept:
            raise RegardError(f"{name}: all {read.pairs:,} are longer than {limit}")
