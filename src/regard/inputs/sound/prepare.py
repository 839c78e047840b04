"""From recordings to what training reads: the vocabulary of their texts, and a store of their sound; each step once."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data.cache import built_once
from regard.data.tables import Role
from regard.data.tokens import Tokenizer
from regard.errors import RegardError
from regard.inputs.sound.files import Recording, SpeechSplit, speech_splits
from regard.inputs.sound.store import VERSION, SpeechStore, write_speech
from regard.outputs.text.transcribe_settings import SpeechDataSettings


@dataclass(frozen=True)
class PreparedSpeech:
    tokenizer: Tokenizer
    splits: dict[Role, SpeechSplit]
    stores: dict[Role, SpeechStore]


def prepare_speech(
    settings: SpeechDataSettings,
    cache: Path,
    *,
    tokenizer: Tokenizer | None = None,
    strict: bool = True,
) -> PreparedSpeech:
    """`strict` refuses data with more bad recordings than `data.max_bad`; without it they are only counted."""
    cache = Path(settings.cache).expanduser() if settings.cache else cache
    splits = speech_splits(settings)
    tokenizer = tokenizer or _vocabulary(cache, settings, splits["train"])
    stores: dict[Role, SpeechStore] = {}
    for role, split in splits.items():
        stores[role] = stored(cache, settings, role, split, tokenizer, strict=strict)
    return PreparedSpeech(tokenizer, splits, stores)


def stored(
    cache: Path,
    settings: SpeechDataSettings,
    role: Role,
    split: SpeechSplit,
    tokenizer: Tokenizer,
    *,
    strict: bool = True,
) -> SpeechStore:
    """The recordings of one split. Refused if there is none, or too much that is none."""
    store = _store(cache, settings, role, split, tokenizer)
    read, name = store.counted.counts.read, f"data.{role}={split}"
    if strict or not read.pairs:
        read.refuse_if(name, settings.max_bad)
    if not len(store):
        raise RegardError(
            f"{name}: all {read.pairs:,} recordings are longer than data.max_seconds={settings.max_seconds:g} "
            f"or their texts than data.max_length={settings.max_length}; raise these"
        )
    return store


def _vocabulary(cache: Path, settings: SpeechDataSettings, train: SpeechSplit) -> Tokenizer:
    how = settings.tokenizer

    def texts() -> Iterator[str]:
        for item in train.read():
            if isinstance(item, Recording):
                # Joined recordings have spaces between them, which a vocabulary of characters has to know.
                yield item.text if settings.join is None else f"{item.text} {item.text}"

    def build(folder: Path) -> None:
        found = Tokenizer.train(
            texts(), how.kind, size=how.size, min_frequency=how.min_frequency, lowercase=how.lowercase
        )
        found.save(folder / "tokenizer.json")

    key = [train.inputs(), how.model_dump(), settings.join is None]
    return Tokenizer.load(built_once(cache, "vocabulary", key, build) / "tokenizer.json")


def _store(
    cache: Path, settings: SpeechDataSettings, role: Role, split: SpeechSplit, tokenizer: Tokenizer
) -> SpeechStore:
    # What is measured on is never left out for its length: a score is of all the data.
    limits = (settings.max_seconds, settings.max_length) if role == "train" else (float("inf"), 1 << 30)

    def build(folder: Path) -> None:
        write_speech(
            folder, split.read(), tokenizer, settings.sound,
            name=str(split), max_seconds=limits[0], max_length=limits[1],
        )  # fmt: skip

    key = [VERSION, split.inputs(), tokenizer.to_json(), settings.sound.rate, str(limits)]
    return SpeechStore(built_once(cache, role, key, build), settings.sound)
