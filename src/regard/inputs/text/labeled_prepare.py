"""Labeled texts to token ids: count, learn vocabulary and labels, tokenize; each step once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.data.cache import built_once
from regard.data.pairs import Pair
from regard.data.tables import Role
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.inputs.text.labeled import labeled_source
from regard.inputs.text.pair_prepare import count_pairs, refuse_if_useless, store_split
from regard.inputs.text.pair_store import PairStore
from regard.inputs.text.splits import Split, divided
from regard.outputs.labels.classify_settings import TextSettings
from regard.outputs.labels.labels import Labels, Writing


@dataclass(frozen=True)
class PreparedTexts:
    """The vocabulary of the texts, the classes, and the token ids of each split."""

    tokenizer: Tokenizer
    labels: Labels
    splits: dict[Role, Split]
    stores: dict[Role, PairStore]


def prepare_labeled(
    settings: TextSettings,
    cache: Path,
    *,
    tokenizer: Tokenizer | None = None,
    labels: Labels | None = None,
    strict: bool = True,
    tell: Callable[[str], None] = lambda message: None,
) -> PreparedTexts:
    """`tokenizer` and `labels` are used as they are, if given: those of a pretrained encoder, of a run that goes on."""
    cache = Path(settings.cache).expanduser() if settings.cache else cache
    train, valid, test = (labeled_source(settings, role) for role in ("train", "valid", "test"))
    assert train is not None
    count = count_pairs(cache, train, tell)
    if strict or not count.pairs:
        count.refuse_if(f"data.train={settings.train}", settings.max_bad)
    splits = divided(train, valid, test, min(settings.valid_share, settings.valid_most / max(1, count.pairs)))
    tokenizer = tokenizer or _vocabulary(cache, settings, splits["train"], count.pairs, tell)
    labels = labels or _labels(cache, settings, splits["train"], tell)
    stores: dict[Role, PairStore] = {}
    for role, split in splits.items():
        stores[role] = store_split(cache, settings, role, split, tokenizer, labels, tell)
        refuse_if_useless(stores[role], role, split, settings, strict)
    return PreparedTexts(tokenizer, labels, splits, stores)


def _vocabulary(
    cache: Path, settings: TextSettings, train: Split, pairs: int, tell: Callable[[str], None]
) -> Tokenizer:
    """Learned from training texts only, and from an even choice of them if there are very many."""
    how = settings.tokenizer
    every = -(-pairs // how.learn_from)

    def build(folder: Path) -> None:
        tell(f"learning the vocabulary of {train}")
        texts = (pair.source for pair in islice(_pairs(train), 0, None, every))
        found = Tokenizer.train(
            texts, how.kind, size=how.size, min_frequency=how.min_frequency, lowercase=how.lowercase
        )
        found.save(folder / "tokenizer.json")

    key = [train.pairs.depends_on(), train.part, train.share, how.model_dump()]
    return Tokenizer.load(built_once(cache, "vocabulary", key, build) / "tokenizer.json")


def _labels(cache: Path, settings: TextSettings, train: Split, tell: Callable[[str], None]) -> Labels:
    """Those that occur in training: a model cannot learn any other."""

    def build(folder: Path) -> None:
        tell(f"looking for the labels of {train}")
        Labels.learned((pair.target for pair in _pairs(train)), Writing.of(settings)).save(folder / "labels.json")

    key = ["labels", train.pairs.depends_on(), train.part, train.share]
    labels = Labels.load(built_once(cache, "labels", key, build) / "labels.json")
    if len(labels) < (1 if labels.several else 2):
        found = ", ".join(map(repr, labels.names)) or "none"
        raise RegardError(f"data.train={settings.train}: a classifier needs two classes at least; there is {found}")
    return labels


def _pairs(split: Split) -> Iterator[Pair]:
    return (item for item in split.read() if isinstance(item, Pair))
