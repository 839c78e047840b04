"""From recordings to what training reads: the vocabulary of their texts, and a store of their sound; each step once."""

from collections.abc import Iterator
from pathlib import Path

from regard.data.cache import built_once
from regard.data.tables import Role
from regard.errors import RegardError
from regard.inputs.base import Targets, Vocabulary
from regard.inputs.sound.files import Recording, SpeechSplit
from regard.inputs.sound.settings import RecordingSettings
from regard.inputs.sound.store import VERSION, SpeechStore, write_speech


def learned(cache: Path, settings: RecordingSettings, train: SpeechSplit, targets: Targets) -> Vocabulary:
    """The vocabulary of what is written beside the training recordings."""

    def texts() -> Iterator[str]:
        for item in train.read():
            if isinstance(item, Recording):
                # Joined recordings have spaces between them, which a vocabulary of characters has to know.
                yield item.text if settings.joined is None else f"{item.text} {item.text}"

    def build(folder: Path) -> None:
        (folder / "vocabulary.json").write_text(targets.learn(texts()).to_json(), encoding="utf-8")

    if targets.key is None:
        return targets.learn(())
    folder = built_once(cache, "vocabulary", [train.inputs(), targets.key, settings.joined is None], build)
    return targets.load((folder / "vocabulary.json").read_text(encoding="utf-8"))


def stored(
    cache: Path,
    settings: RecordingSettings,
    role: Role,
    split: SpeechSplit,
    vocabulary: Vocabulary | None,
    *,
    strict: bool = True,
) -> SpeechStore:
    """The recordings of one split. Refused if there is none or, if `strict`, more than `max_bad` that are none."""
    store = _store(cache, settings, role, split, vocabulary)
    read, name = store.counted.counts.read, f"data.{role}={split}"
    if strict or not read.pairs:
        read.refuse_if(name, settings.max_bad)
    if not len(store):
        raise RegardError(f"{name}: all {read.pairs:,} recordings are longer than {settings.limits}: raise this")
    return store


def _store(
    cache: Path, settings: RecordingSettings, role: Role, split: SpeechSplit, vocabulary: Vocabulary | None
) -> SpeechStore:
    # What is measured on is never left out for its length: a score is of all the data.
    limits = (settings.max_seconds, settings.most_tokens) if role == "train" else (float("inf"), 1 << 30)

    def build(folder: Path) -> None:
        write_speech(
            folder, split.read(), vocabulary, settings.sound,
            name=str(split), max_seconds=limits[0], max_length=limits[1],
        )  # fmt: skip

    written = None if vocabulary is None else vocabulary.to_json()
    key = [VERSION, split.inputs(), written, settings.sound.rate, str(limits)]
    return SpeechStore(built_once(cache, role, key, build), settings.sound)
