"""From the user's files to what training reads: count, divide, learn a vocabulary, store; each step once (`cache.py`).

A step depends on the files (name, size, time of change), on the settings that matter to it, and on the steps before it.
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
MANY = 300_000  # training examples; of more, a check looks at ...
SAMPLE = 100_000  # ... so many of them, about
PATIENCE = 2.0  # seconds before anything is said
EVERY = 1.0  # seconds between two words on a terminal; a file gets a line in half a minute
EVERY_IN_FILES = 30.0


def watched(items: Iterable[U], doing: str, every: int = 256, total: int = 0) -> Iterator[U]:
    """The same items; `doing`, such as "reading train.tsv", is said with their number, if they are long in coming.

    `every`: after so many items one looks at the clock. `total`: how many there are, about, where that is known: then
    the seconds that are left are estimated.
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
    """`settings` is a data section: `max_bad`, `valid_share` and `valid_most` are asked of it.

    `strict` refuses data with more bad lines than `data.max_bad`, and leaves test data for when it is asked for;
    without it bad lines are only counted, for `check`, and of very many examples a sample is taken.
    """

    settings: Any
    cache: Path
    strict: bool = True

    @classmethod
    def of(cls, settings: Any, cache: Path, *, strict: bool = True) -> "Steps":
        """`settings.cache` comes before `cache`."""
        return cls(settings, Path(settings.cache).expanduser() if settings.cache else cache, strict)

    def count(self, source: Source[Any]) -> ReadReport:
        """How many training examples there are, and what is none: refused before anything else is done."""

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
        """Train and valid, and without `strict` test; some of train is held out, if nothing else is for validation."""
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
        """What `learn` makes, or made before from the same: it has `to_json`, and `load` is the inverse."""

        def build(folder: Path) -> None:
            (folder / "vocabulary.json").write_text(learn().to_json(), encoding="utf-8")

        folder = built_once(self.cache, step, key, build)
        return load((folder / "vocabulary.json").read_text(encoding="utf-8"))

    def targets(self, targets: Targets, key: Any, texts: Callable[[], Iterable[str]]) -> Vocabulary:
        """The vocabulary of targets: as it is, if it is there; else learned from `texts`, which depend on `key`."""
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
        """What `write` made, in a folder and with the name of the split, of all that is read of it, and of `key`.

        `refuse` it if nothing is left, or too little of what was read. `limit`: what all of them may be longer than.
        """

        def build(folder: Path) -> None:
            write(folder, str(split), watched(split.read(), f"reading {split}", total=self._about(split)))

        store = kind(built_once(self.cache, role, [VERSION, split.depends_on(), key], build))
        store.counts.sampled = split.sample
        if refuse:
            self.refuse_if_useless(store.counts.read, len(store), role, split, limit=limit)
        return store

    def _about(self, split: Split[Any]) -> int:
        """How many examples a part has; 0 if they were not counted, which only dividing the data takes."""
        share = {"held out": split.share, "test": split.test_share, "kept": 1 - split.share - split.test_share}
        return round(split.sample * share[split.part] * self.count(split.source).pairs) if split.part in share else 0

    def refuse_if_useless(self, read: ReadReport, kept: int, role: Role, split: Split[Any], *, limit: str) -> None:
        """If nothing is left, or too little of what was read; `kept`: how many are short enough."""
        name = f"data.{role}={split}"
        if split.held_out_by and not read.pairs:
            share = f"data.{split.held_out_by}={getattr(self.settings, split.held_out_by):g}"
            raise RegardError(f"{name}: nothing was held out by {share}; raise it, or give data.{role}")
        if self.strict or not read.pairs:
            read.refuse_if(name, self.settings.max_bad)
        if not kept:
            raise RegardError(f"{name}: all {read.pairs:,} are longer than {limit}")
