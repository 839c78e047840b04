"""From settings to token ids: count, learn the vocabularies, tokenize; each step once, as long as nothing changes.

Every step writes a folder of the cache, see `data/cache.py`. A step depends on the files (name, size, time of change),
the settings that matter to it, and the steps before it.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from regard.data.cache import built_once
from regard.data.files import PairSource
from regard.data.pairs import Pair
from regard.data.read_report import ReadReport
from regard.data.tables import Role
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.inputs.base import Targets, Vocabulary
from regard.inputs.text.pair_store import VERSION, PairStore, write_store
from regard.inputs.text.splits import Split, find_splits, pair_source


@dataclass(frozen=True)
class PreparedPairs:
    """Two vocabularies (one, twice, if it is joint) and the token ids of each split."""

    source: Tokenizer
    target: Vocabulary
    splits: dict[Role, Split]
    stores: dict[Role, PairStore]


@runtime_checkable
class Sources(Protocol):
    """The vocabulary of inputs: known before the data is read, or learned from it."""

    @property
    def known(self) -> Tokenizer | None: ...

    def learn(self, sources: Iterable[str], targets: Iterable[str]) -> Tokenizer: ...

    def keep(self, tokenizer: Tokenizer) -> None: ...

    def writer(self) -> Vocabulary:
        """What writes inputs as the ids of a store: the tokenizer that was kept, or more than it."""
        ...


def prepare(
    settings: Any,
    cache: Path,
    sources: Sources,
    targets: Targets,
    *,
    strict: bool = True,
    tell: Callable[[str], None] = lambda message: None,
) -> PreparedPairs:
    """Bring the user's files into a form that training reads quickly; `settings.cache` comes before `cache`.

    `strict` refuses data with more bad lines than `data.max_bad`; without it they are only counted, for `check`.
    """
    cache = Path(settings.cache).expanduser() if settings.cache else cache
    train = pair_source(settings, "train")
    assert train is not None
    count = count_pairs(cache, train, tell)
    if strict or not count.pairs:
        count.refuse_if(f"data.train={settings.train}", settings.max_bad)
    splits = find_splits(settings, count.pairs)
    source, target = _vocabularies(cache, settings, splits["train"], count.pairs, sources, targets, tell)
    stores: dict[Role, PairStore] = {}
    for role, split in splits.items():
        stores[role] = store_split(cache, settings, role, split, sources.writer(), target, tell)
        refuse_if_useless(stores[role], role, split, settings, strict)
    return PreparedPairs(source, target, splits, stores)


def count_pairs(cache: Path, train: PairSource, tell: Callable[[str], None]) -> ReadReport:
    """How many pairs there are, and what is none."""

    def build(folder: Path) -> None:
        tell(f"counting pairs of {train.where}")
        report = ReadReport()
        for _ in report.only_pairs(train.read()):
            pass
        (folder / "count.json").write_text(json.dumps(report.as_dict()), encoding="utf-8")

    folder = built_once(cache, "count", train.depends_on(), build)
    return ReadReport.from_dict(json.loads((folder / "count.json").read_text(encoding="utf-8")))


def _vocabularies(
    cache: Path,
    settings: Any,
    train: Split,
    pairs: int,
    sources: Sources,
    targets: Targets,
    tell: Callable[[str], None],
) -> tuple[Tokenizer, Vocabulary]:
    """Learned from training pairs only, and from an even choice of them if there are very many."""
    how = settings.tokenizer
    every = -(-pairs // how.learn_from)
    depends_on = [train.pairs.depends_on(), train.part, train.share, how.model_dump()]

    def texts(side: str, every: int) -> Iterator[str]:
        good = (item for item in train.read() if isinstance(item, Pair))
        return (getattr(pair, side) for pair in islice(good, 0, None, every))

    def learn_source(folder: Path) -> None:
        tell(f"learning the vocabulary of {train}")
        sources.learn(texts("source", every), texts("target", every)).save(folder / "vocabulary.json")

    def learn_target(folder: Path) -> None:
        tell(f"learning the targets of {train}")
        found = targets.learn(texts("target", 1 if targets.learns_from_all else every))
        (folder / "vocabulary.json").write_text(found.to_json(), encoding="utf-8")

    source = sources.known
    if source is None:
        source = Tokenizer.load(built_once(cache, "vocabulary", depends_on, learn_source) / "vocabulary.json")
    sources.keep(source)  # targets may be written by the same one
    key = targets.key
    if key is None:
        return source, targets.learn(())
    folder = built_once(cache, "targets", [*depends_on, key], learn_target)
    return source, targets.load((folder / "vocabulary.json").read_text(encoding="utf-8"))


@runtime_checkable
class Limits(Protocol):
    """What of the settings decides which pairs are kept."""

    @property
    def max_length(self) -> int: ...
    @property
    def overlong(self) -> Literal["skip", "cut"]: ...
    @property
    def max_bad(self) -> float: ...
    @property
    def valid_share(self) -> float: ...


def store_split(
    cache: Path,
    settings: Limits,
    role: Role,
    split: Split,
    source: Vocabulary,
    target: Vocabulary,
    tell: Callable[[str], None],
) -> PairStore:
    """Token ids of a split, on disk."""

    def build(folder: Path) -> None:
        tell(f"tokenizing {split}")
        write_store(
            folder,
            split.read(),
            source,
            target,
            name=str(split),
            max_length=settings.max_length,
            overlong=settings.overlong,
        )

    vocabularies = [source.to_json(), target.to_json()]
    limits = [settings.max_length, settings.overlong]
    key = [VERSION, split.pairs.depends_on(), split.part, split.share, vocabularies, limits]
    return PairStore(built_once(cache, role, key, build))


def refuse_if_useless(store: PairStore, role: Role, split: Split, settings: Limits, strict: bool) -> None:
    """Raise where nothing is left, or too little of what was read."""
    name = f"data.{role}={split}"
    if split.part == "held out" and not store.counts.read.pairs:
        raise RegardError(
            f"{name}: nothing was held out by data.valid_share={settings.valid_share:g}; raise it, or give data.valid"
        )
    if strict or not store.counts.read.pairs:
        store.counts.read.refuse_if(name, settings.max_bad)
    if not len(store):
        raise RegardError(
            f"{name}: all {store.counts.overlong:,} pairs are longer than data.max_length={settings.max_length}; "
            "raise it, or set data.overlong=cut"
        )
