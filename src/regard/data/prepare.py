"""Prepare the user's files for training: count, divide, learn a vocabulary, store; each step is cached (`cache.py`).

A step depends on the files (name, size, modification time), on the relevant settings, and on the earlier steps.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from pydantic import TypeAdapter

from regard.data.cache import built_once
from regard.data.counts import ReadReport
from regard.data.files import Read, Source
from regard.data.pairs import Bad
from regard.data.splits import Split, find_splits
from regard.data.store import VERSION, Store
from regard.data.tables import Role
from regard.data.vocabulary import Targets, Vocabulary
from regard.errors import RegardError

T = TypeVar("T", bound=Read)
U = TypeVar("U")
S = TypeVar("S", bound=Store)
V = TypeVar("V")
_REPORT = TypeAdapter(ReadReport)
MANY = 300_000  # training examples; with more, a check samples ...
SAMPLE = 100_000  # ... about this many
PATIENCE = 2.0  # seconds before the first progress message
EVERY = 1.0  # seconds between progress messages on a terminal; every 30 s in a log file
EVERY_IN_FILES = 30.0


def watched(items: Iterable[U], doing: str, every: int = 256, total: int = 0) -> Iterator[U]:
    """Yield the same items, and report progress, such as "reading train.tsv" with their number, if they take long.

    `every`: items between checks of the clock. `total`: their approximate number, if known, to estimate the remaining
    seconds.
    """
    terminal = sys.stderr.isatty()
    begin = monotonic()
    due, spoken, number = begin + PATIENCE, False, 0
    for number, item in enumerate(items, start=1):
        yield item
        if number % every == 0 and (now := monotonic()) >= due:
            spoken, due = True, now + (EVERY if terminal else EVERY_IN_FILES)
            of, left = f" of about {total:,}", f", about {(now - begin) * (total - number) / number:.0f} s left"
            known = total > number
            _say(f"{doing}: {number:,}{of * known} in {now - begin:.0f} s{left * known}", terminal)
    if spoken:
        _say(f"{doing}: {number:,} in {monotonic() - begin:.0f} s", terminal, last=True)


def _say(text: str, terminal: bool, *, last: bool = False) -> None:
    line = f"\r\x1b[K{text}" if terminal else text
    print(line, end="\n" if last or not terminal else "", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Steps:
    """Steps of preparing data. `settings` is a data section with `max_bad`, `valid_share` and `valid_most`.

    `strict` refuses data with more bad lines than `data.max_bad`, and skips test data. Without it, for `check`, bad
    lines are only counted, and large data is sampled.
    """

    settings: Any
    cache: Path
    strict: bool = True

    @classmethod
    def of(cls, settings: Any, cache: Path, *, strict: bool = True) -> "Steps":
        """Return the steps; `settings.cache` takes precedence over `cache`."""
        return cls(settings, Path(settings.cache).expanduser() if settings.cache else cache, strict)

    def count(self, source: Source[Any]) -> ReadReport:
        """Count the training examples and bad lines; raise if too many are bad."""

        def build(folder: Path) -> None:
            report = ReadReport()
            for _ in report.only_pairs(watched(source.read(), f"counting {source.where}")):
                pass
            (folder / "count.json").write_bytes(_REPORT.dump_json(report))

        folder = built_once(self.cache, "count", source.depends_on(), build)
        report = _REPORT.validate_json((folder / "count.json").read_bytes())
        if self.strict or not report.pairs:
            report.refuse_if(f"data.train={source.where}", self.settings.max_bad)
        return report

    def splits(self, sources: Mapping[Role, Source[T]]) -> dict[Role, Split[T]]:
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
            (folder / "vocabulary.json").write_text(learn().to_json(), encoding="utf-8")

        folder = built_once(self.cache, step, key, build)
        return load((folder / "vocabulary.json").read_text(encoding="utf-8"))

    def targets(self, targets: Targets, key: Any, texts: Callable[[], Iterable[str]]) -> Vocabulary:
        """Return the vocabulary of targets: the existing one, or one learned from `texts`, which depend on `key`."""
        if targets.key is None:
            return targets.learn(())
        return self.vocabulary("targets", [key, targets.key], lambda: targets.learn(texts()), targets.load)

    def store(
        self,
        kind: Callable[[Path], S],
        role: Role,
        split: Split[T],
        key: Any,
        write: Callable[[Path, str, Iterable[T | Bad]], None],
        *,
        limit: str = "",
        refuse: bool = True,
    ) -> S:
        """Return what `write` stored, cached by the split, everything that is read of it, and `key`.

        Raise if nothing is left, or too few of the examples. `limit`: description of the length limit in the message.
        """

        def build(folder: Path) -> None:
            write(folder, str(split), watched(split.read(), f"reading {split}", total=self._about(split)))

        store = kind(built_once(self.cache, role, [VERSION, split.depends_on(), key], build))
        store.counts.sampled = split.sample
        if refuse:
            self.refuse_if_useless(store.counts.read, len(store), role, split, limit=limit)
        return store

    def _about(self, split: Split[Any]) -> int:
        """Return the number of examples of a part; 0 if unknown, because only dividing the data counts them."""
        share = {"held out": split.share, "test": split.test_share, "kept": 1 - split.share - split.test_share}
        return round(split.sample * share[split.part] * self.count(split.source).pairs) if split.part in share else 0

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
